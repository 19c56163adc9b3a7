// The forward graph of a rank that has a part of the experts of each mixture.
//
// The loop over experts, each of which takes its tokens from all, becomes one exchange:
//
//   route - permute - all_to_all - sort - experts of this rank - sort - all_to_all - combine
//
// Routing is taken as balanced, but for `imbalance`: the rank that is simulated receives so much
// more than the average.
#pragma once

#include <optional>
#include <string>

#include "graph/ir/graph.hpp"

namespace tidemark {

struct ExpertOptions {
  int ranks = 1;
  // Rows of each expert from each rank, over the balanced number: padded to it, and the host need
  // not know how many tokens chose whom. None: as many rows as tokens choose.
  std::optional<double> capacity_factor;
  double imbalance = 0;
  std::string path;  // key that names the number of ranks, for errors
  int divides = 0;   // errors suggest divisors of this, the data ranks; 0: any size
};

// Throws UserError where the model has no mixture of experts, or their number does not divide.
[[nodiscard]] Graph divide_experts(const Graph& graph, const ExpertOptions& options);

}  // namespace tidemark
