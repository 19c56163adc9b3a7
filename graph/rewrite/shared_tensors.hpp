// The tensors that turns of a step share: what makes them, which turn goes back through it, and
// whether PyTorch can run such a step.
#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "graph/ir/training_graph.hpp"

namespace tidemark {

// The operators of a turn's forward that only serve to make one tensor.
struct Making {
  std::vector<OperatorId> operators;  // in their order
  std::set<StorageId> created;        // storages that they create, the tensor's own excepted
};

// A tensor that several turns use, as they name and make it.
struct SharedTensor {
  std::string name;
  std::vector<std::pair<std::size_t, StorageId>> in_turns;  // its storage in each turn
  std::vector<Making> makings;                              // in each of them
  std::size_t owner = 0;  // of these: the one whose operators make it, and whose backward follows
  // Variables of the loop in turns after the owner's: the turn, and where it drops them.
  std::vector<std::pair<std::size_t, OperatorId>> later;
  OperatorId since;  // makes it: of the owner, then of the result
  StorageId place;   // of the result

  [[nodiscard]] std::size_t first_turn() const { return in_turns.front().first; }
  [[nodiscard]] std::size_t owner_turn() const { return in_turns[owner].first; }
};

// Returns the tensors that the turns name (TrainingGraph::named), in the order of their names.
// Throws UserError as merge_turns() does.
[[nodiscard]] std::vector<SharedTensor> find_shared_tensors(
    const std::vector<TrainingGraph>& turns);

}  // namespace tidemark
