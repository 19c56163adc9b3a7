// The entries of the policies that decide where a value is between two uses.
#pragma once

#include "policies/plan/entry.hpp"

namespace tidemark {

[[nodiscard]] const PolicyEntry& belady_entry();
[[nodiscard]] const PolicyEntry& capuchin_entry();
[[nodiscard]] const PolicyEntry& checkpoint_entry();
[[nodiscard]] const PolicyEntry& checkpoint_sequential_entry();
[[nodiscard]] const PolicyEntry& flashneuron_entry();
[[nodiscard]] const PolicyEntry& hybrid_entry();
[[nodiscard]] const PolicyEntry& karma_entry();
[[nodiscard]] const PolicyEntry& megatron_offload_entry();
[[nodiscard]] const PolicyEntry& offload_activations_entry();
[[nodiscard]] const PolicyEntry& offload_checkpoints_entry();
[[nodiscard]] const PolicyEntry& stronghold_entry();
[[nodiscard]] const PolicyEntry& superneurons_entry();
[[nodiscard]] const PolicyEntry& te_offload_entry();
[[nodiscard]] const PolicyEntry& torchtune_offload_entry();
[[nodiscard]] const PolicyEntry& vdnn_entry();

}  // namespace tidemark
