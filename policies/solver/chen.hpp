// Chen's policies, and the nodes among which they choose checkpoints.
#pragma once

#include <string_view>
#include <vector>

#include "policies/solver/choose_schedule.hpp"
#include "policies/solver/plan_policy.hpp"

namespace tidemark {

// Returns lists of nodes that may be kept: all forward nodes (`over` is "nodes"), "articulation"
// points, the outputs of "layers", or each of these in turn ("any"). Throws UserError where there
// are no layers.
[[nodiscard]] std::vector<std::vector<NodeIndex>> checkpoint_candidates(const RematProblem& problem,
                                                                        std::string_view over);

// Considers the schedules of both policies for the candidates of `over`, none where the graph has
// no layers.
void consider_chen(const RematProblem& problem, std::string_view over, ScheduleChoice& choice);

[[nodiscard]] PlanFunction decode_chen_sqrt(const Decoder& d);
[[nodiscard]] PlanFunction decode_chen_greedy(const Decoder& d);

}  // namespace tidemark
