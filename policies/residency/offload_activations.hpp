// Offloading of saved activations with a prefetch distance in blocks.
#pragma once

#include "policies/registry.hpp"

namespace tidemark {

[[nodiscard]] const PolicyEntry& offload_activations_entry();

}  // namespace tidemark
