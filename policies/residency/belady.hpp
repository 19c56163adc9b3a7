// Belady's rule for saved activations: the farthest next use leaves.
#pragma once

#include "policies/registry.hpp"

namespace tidemark {

[[nodiscard]] const PolicyEntry& belady_entry();

}  // namespace tidemark
