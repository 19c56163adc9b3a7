// The gradients of a step with several turns, each with a loss and an optimizer of its own.
//
//   discriminator    zero_grad(D)  backward makes D's         optimizer(D)
//   generator        zero_grad(G)  backward adds to D's, makes G's   optimizer(G)
//
// A loss gives gradients to all parameters that it passes; zero_grad of an optimizer drops or fills
// those of its own parameters only.
#pragma once

#include <string>
#include <vector>

#include "graph/ir/training_graph.hpp"
#include "policies/adapt/name_patterns.hpp"
#include "policies/rewrite/accumulate.hpp"

namespace tidemark {

// Leaves to the turn's optimizer the parameters whose names match; all without patterns. `graph` is
// differentiated and nothing more. Throws UserError for a pattern that matches no parameter with a
// gradient.
void choose_updates(TrainingGraph& graph, const NamePatterns& train);

// Says for each parameter of each turn whether its gradient exists when backward begins there, so
// that the rewrite `accumulate` adds to it. Throws UserError where two turns update one parameter.
void relate_gradients(std::vector<TrainingGraph>& turns, ZeroGrad zero_grad);

// Returns sentences about parameters that get gradients which no turn zeroes.
[[nodiscard]] std::vector<std::string> turn_warnings(const std::vector<TrainingGraph>& turns);

}  // namespace tidemark
