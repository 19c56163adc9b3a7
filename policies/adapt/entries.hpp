// The entries of the policies that change which weights a model trains, and how it keeps them.
#pragma once

#include "policies/plan/entry.hpp"

namespace tidemark {

[[nodiscard]] const PolicyEntry& freeze_entry();
[[nodiscard]] const PolicyEntry& lora_entry();
[[nodiscard]] const PolicyEntry& quantise_weights_entry();
[[nodiscard]] const PolicyEntry& adaptive_precision_entry();
[[nodiscard]] const PolicyEntry& layer_precision_entry();
[[nodiscard]] const PolicyEntry& distill_entry();
[[nodiscard]] const PolicyEntry& prune_entry();
[[nodiscard]] const PolicyEntry& qat_entry();

}  // namespace tidemark
