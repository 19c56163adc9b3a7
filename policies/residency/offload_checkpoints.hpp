// Offloaded checkpoints: the inputs of checkpointed layers, as Unsloth moves them.
#pragma once

#include "policies/registry.hpp"

namespace tidemark {

[[nodiscard]] const PolicyEntry& offload_checkpoints_entry();

}  // namespace tidemark
