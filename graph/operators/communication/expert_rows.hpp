// Rows of tokens on their way to experts of other ranks and back (Megatron-LM,
// transformer/moe/token_dispatcher.py, the all-to-all dispatcher).
//
//   permute_rows   a row for each choice of a token, in the order of the experts
//   all_to_all     to the ranks that have the experts
//   sort_rows      what came from several ranks, by expert
//   grouped_linear one product for all experts of the rank
//   combine_rows   the rows of a token, weighted and summed
#pragma once

#include "graph/operators/family.hpp"

namespace tidemark {

// tokens [n, width], routing mask -> [`rows`, width].
[[nodiscard]] const OperatorFamily& permute_rows_family();
// [sent, width] -> [`rows`, width]. `host_sizes`: the host reads how many rows go where.
[[nodiscard]] const OperatorFamily& exchange_rows_family();
[[nodiscard]] const OperatorFamily& sort_rows_family();
// [rows, k], a weight [n, k] for each expert -> [rows, n].
[[nodiscard]] const OperatorFamily& grouped_linear_family();
// [rows, width], weights [tokens, choices] -> [tokens, width].
[[nodiscard]] const OperatorFamily& combine_rows_family();

}  // namespace tidemark
