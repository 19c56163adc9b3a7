// The entries of the policies that divide a layer among ranks.
#pragma once

#include "policies/plan/entry.hpp"

namespace tidemark {

inline constexpr int kMostRanks = 1 << 20;  // of a dimension

[[nodiscard]] const PolicyEntry& context_parallel_entry();
[[nodiscard]] const PolicyEntry& expert_parallel_entry();
[[nodiscard]] const PolicyEntry& tensor_parallel_entry();

}  // namespace tidemark
