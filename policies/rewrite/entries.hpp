// The entries of the policies that change what a step computes.
#pragma once

#include "policies/plan/entry.hpp"

namespace tidemark {

[[nodiscard]] const PolicyEntry& data_parallel_entry();
[[nodiscard]] const PolicyEntry& offload_optimizer_entry();
[[nodiscard]] const PolicyEntry& offload_parameters_entry();
[[nodiscard]] const PolicyEntry& optimizer_in_backward_entry();
[[nodiscard]] const PolicyEntry& pipeline_entry();
[[nodiscard]] const PolicyEntry& ema_entry();

}  // namespace tidemark
