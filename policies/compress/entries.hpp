// Policies that keep tensors with fewer bits.
#pragma once

#include "policies/plan/entry.hpp"

namespace tidemark {

[[nodiscard]] const PolicyEntry& compress_activations_entry();

}  // namespace tidemark
