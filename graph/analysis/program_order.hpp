// The order in which operators run: steps, micro-batches, and whatever is recomputed.
//
// Recomputation needs no machinery of its own: an operator that appears twice creates its results
// twice, and the first copy may die early. A solver's schedule is an order too.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "graph/analysis/schedule.hpp"
#include "graph/core/ids.hpp"
#include "graph/ir/training_graph.hpp"

namespace tidemark {

struct Occurrence {
  OperatorId op;
  std::uint16_t step = 0;
  std::uint16_t micro_batch = 0;
  bool recompute = false;  // repeats what an earlier occurrence has run
  // The operator runs inside saved-tensor hooks: what it reads is a variable of theirs, and
  // autograd saves nothing.
  bool in_hooks = false;
  // Index, from 0, among the micro-batches in flight together: the temporary values of each are
  // instances of their own. Always 0 where micro-batches run one after another.
  std::uint16_t instance = 0;
  // Bit i: the operator's i-th touch creates a storage whose earlier copy is still wanted; this
  // occurrence writes a scratch allocation that is freed at once.
  std::uint32_t scratch = 0;
};

// Memory that code around the operators keeps, such as the frames of torch.utils.checkpoint.
struct Kept {
  StorageId storage;  // the storage whose memory is kept; invalid: memory of its own, `bytes`
  Bytes bytes;
  Position since;  // memory of its own exists from before this operator
  Position until;  // released when this operator has ended
};

struct ProgramOrder {
  IdVector<Position, Occurrence> at;
  std::vector<Kept> kept;
  int steps = 0;
  int micro_batches = 0;
  int in_flight = 1;  // micro-batches at a time, at most
};

// Returns the operators of the scheduled parts, `steps` times. Micro-batches are in flight together
// from their first part in a step to their last.
[[nodiscard]] ProgramOrder program_order(const TrainingGraph& graph, const StepSchedule& schedule,
                                         int steps);
// Returns the program order of `steps` steps under training_schedule(graph).
[[nodiscard]] ProgramOrder program_order(const TrainingGraph& graph, int steps);

// Occurrences that are inserted before the position `before`.
struct Repeat {
  Position before;
  std::vector<Occurrence> occurrences;
  Bytes held;  // memory that the code around them has while they run
};

// Returns the order with all repeats inserted; repeats before the same position keep their order.
// Positions in `order.kept` are those of the given order, and those of the result afterwards.
[[nodiscard]] ProgramOrder insert_repeats(const ProgramOrder& order, std::vector<Repeat> repeats);

}  // namespace tidemark
