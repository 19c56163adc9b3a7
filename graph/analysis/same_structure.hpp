// Whether two steps differ in sizes alone: the same operators touch the same storages in the same
// order, and only bytes, shapes and amounts of work are others.
#pragma once

#include "graph/ir/training_graph.hpp"

namespace tidemark {

// Whether the graphs agree in everything that an order, its liveness and a program follow from but
// the bytes of storages, workspaces and messages. Names and amounts of work count as sizes; whether
// an operator has a workspace at all does not. `checkpoint_random_state` is a rule of the framework
// and has to be equal.
[[nodiscard]] bool same_structure(const TrainingGraph& a, const TrainingGraph& b);

}  // namespace tidemark
