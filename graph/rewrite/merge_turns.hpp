// Makes one training graph of the turns of a step: each keeps all of its parts, as the parts of a
// chunk, and they share what they name alike.
#pragma once

#include <vector>

#include "graph/ir/training_graph.hpp"

namespace tidemark {

// Parameters, trained or frozen, and buffers of one name are the same memory, and so are inputs of
// one name and size. The gradient of a parameter is one, whichever turn adds to it.
//
// A tensor that several turns name (TrainingGraph::named) is computed once, before the first of
// them, in the form in which the turn whose backward goes through it needs it; the loop keeps it
// until the last one's end.
//
//   discriminator    fake = G(z)  D(real)  D(fake)  loss  backward  optimizer
//   generator                              D(fake)  loss  backward, through D and G  optimizer
//
// Throws UserError for such a tensor where one turn only names it, where PyTorch refuses the
// backward (two go through it, or a turn before has updated its parameters), where it has several
// sizes, where a turn also reads what is only made on the way to it, where two of them are made
// together, and where micro-batches accumulate, each of which would need its own.
[[nodiscard]] TrainingGraph merge_turns(std::vector<TrainingGraph> turns);

}  // namespace tidemark
