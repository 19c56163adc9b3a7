// Policies that make a smaller model, or one of fewer bits.
#pragma once

#include "policies/plan/entry.hpp"

namespace tidemark {

[[nodiscard]] const PolicyEntry& distill_entry();
[[nodiscard]] const PolicyEntry& prune_entry();
[[nodiscard]] const PolicyEntry& qat_entry();

}  // namespace tidemark
