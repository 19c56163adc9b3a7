// Policies that keep or send tensors with fewer bits.
#pragma once

#include "policies/plan/entry.hpp"

namespace tidemark {

[[nodiscard]] const PolicyEntry& compress_activations_entry();
[[nodiscard]] const PolicyEntry& compress_gradients_entry();

}  // namespace tidemark
