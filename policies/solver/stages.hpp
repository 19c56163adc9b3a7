// A training graph as a chain of stages.
//
//   forward     [ stage 1 ] x1 [ stage 2 ] x2 ... [ stage L, loss and first gradients ]
//   backward    [ stage 1 ]    [ stage 2 ]    ... [ stage L                           ]
//
// A stage ends where later forward nodes read nothing but its output of what comes before, values
// of the whole network (masks, tables, long skips) excepted. Nodes that only backward reads, such
// as a dropout's mask or a batch norm's statistics, may follow the output. A backward node belongs
// to the stage whose inner values it reads, or to that of the backward nodes before it.
#pragma once

#include <cstddef>
#include <vector>

#include "policies/remat/problem.hpp"

namespace tidemark {

struct Stage {
  std::vector<NodeIndex> forward;   // ascending
  std::vector<NodeIndex> backward;  // ascending
  NodeIndex output = 0;             // the forward node that later stages read; the loss in the last
};
// Splits a graph into at most `most` stages; fewer than two where the graph is no chain of them.
[[nodiscard]] std::vector<Stage> stages_of(const RematProblem& problem, std::size_t most);

// Returns the schedules that keep the outputs of all stages and recompute the insides of the first
// k, for every k.
[[nodiscard]] std::vector<Schedule> first_stages_schedules(const RematProblem& problem,
                                                           const std::vector<Stage>& stages);

}  // namespace tidemark
