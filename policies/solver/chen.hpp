// Chen's policies, and the nodes among which they choose checkpoints.
#pragma once

#include <string_view>
#include <vector>

#include "policies/solver/plan_policy.hpp"

namespace tidemark {

// Returns lists of nodes that may be kept: all forward nodes (`over` is "nodes"), "articulation"
// points, the outputs of "layers", or each of these in turn ("any"). Throws UserError where there
// are no layers.
[[nodiscard]] std::vector<std::vector<NodeIndex>> checkpoint_candidates(const RematProblem& problem,
                                                                        std::string_view over);

[[nodiscard]] PlanFunction decode_chen_sqrt(const Decoder& d);
[[nodiscard]] PlanFunction decode_chen_greedy(const Decoder& d);

}  // namespace tidemark
