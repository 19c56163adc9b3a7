// TransformerEngine's cpu_offload: the first layers of a model.
#pragma once

#include "policies/registry.hpp"

namespace tidemark {

[[nodiscard]] const PolicyEntry& te_offload_entry();

}  // namespace tidemark
