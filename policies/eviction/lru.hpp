// Eviction on allocation failure.
#pragma once

#include "policies/registry.hpp"

namespace tidemark {

[[nodiscard]] const PolicyEntry& eviction_entry();

}  // namespace tidemark
