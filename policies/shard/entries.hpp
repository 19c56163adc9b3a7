// The entries of the policies that spread a model's states over ranks.
#pragma once

#include "policies/plan/entry.hpp"

namespace tidemark {

[[nodiscard]] const PolicyEntry& distributed_optimizer_entry();
[[nodiscard]] const PolicyEntry& megatron_data_parallel_entry();
[[nodiscard]] const PolicyEntry& fsdp_entry();
[[nodiscard]] const PolicyEntry& zero_entry();

}  // namespace tidemark
