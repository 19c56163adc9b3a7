// Intervals in which memory is needed: the touches of every storage along a program order and the
// gaps between them.
//
//   position      3      7        12     20
//   storage    create  read      read   (dies)
//   gaps          |--0--|----1----|--2--------
//
// Gap i follows touch i. Keeping the memory is one way to close it; policies decide on others. If
// nothing needs the content afterwards, the gap is dead and lowering frees the memory.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/analysis/program_order.hpp"
#include "graph/core/ids.hpp"
#include "graph/ir/training_graph.hpp"

namespace tidemark {

struct Gap {
  StorageId storage;
  Position from;     // the touch that opens it
  Position to;       // the touch that ends it; invalid when none follows
  Position release;  // earliest position after which the memory can be freed: `from`, or the end of
                     // a hold
  bool dead = false;              // the next touch creates the storage anew, or none comes
  bool held_by_variable = false;  // a variable holds the content: no decision frees it
  std::uint16_t instance = 0;     // micro-batch in flight whose occurrences touch it

  [[nodiscard]] bool open() const { return !dead && !held_by_variable && to.valid(); }
};

struct Liveness {
  IdVector<GapId, Gap> gaps;  // sorted by storage, then by instance, then by position
  // The gap that follows touch i of position p is gap_after[first_touch[p] + i].
  IdVector<Position, std::uint32_t> first_touch;
  std::vector<GapId> gap_after;  // invalid where the occurrence writes a scratch allocation

  [[nodiscard]] GapId after(Position p, std::size_t touch_index) const {
    return gap_after[first_touch[p] + touch_index];
  }
};

[[nodiscard]] Liveness analyze_liveness(const TrainingGraph& graph, const ProgramOrder& order);

// Returns whether touch `touch_index` of an occurrence goes to a scratch allocation.
[[nodiscard]] inline bool is_scratch(const Occurrence& occurrence, std::size_t touch_index) {
  return touch_index < 32 && ((occurrence.scratch >> touch_index) & 1U) != 0;
}

}  // namespace tidemark
