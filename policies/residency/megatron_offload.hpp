// Megatron-Core's fine-grained activation offloading: groups of modules.
#pragma once

#include "policies/registry.hpp"

namespace tidemark {

[[nodiscard]] const PolicyEntry& megatron_offload_entry();

}  // namespace tidemark
