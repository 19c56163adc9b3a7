// When memory is needed: the touches of every storage along a program order and the gaps between.
//
//   position      3      7        12     20
//   storage    create  read      read   (dies)
//   gaps          |--0--|----1----|--2--------
//
// Gap i follows touch i. It may be closed in other ways than by keeping the memory: that is what
// policies decide. Where nothing needs the content afterwards the gap is dead and lowering frees.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/analysis/program_order.hpp"
#include "graph/core/ids.hpp"
#include "graph/ir/training_graph.hpp"

namespace tidemark {

struct Gap {
  StorageId storage;
  Position from;  // the touch that opens it
  Position to;    // the touch that ends it; invalid when none follows
  Position
      release;  // earliest position after which the memory can go: `from`, or the end of a hold
  bool dead = false;           // the next touch creates the storage anew, or none comes
  bool pinned = false;         // a variable spans it: no decision helps
  std::uint16_t instance = 0;  // whose values: of the occurrences that touch it

  [[nodiscard]] bool open() const { return !dead && !pinned && to.valid(); }
};

struct Liveness {
  IdVector<GapId, Gap> gaps;  // by storage, then by instance, then by position
  // The gap that follows touch i of position p is gap_after[first_touch[p] + i].
  IdVector<Position, std::uint32_t> first_touch;
  std::vector<GapId> gap_after;  // invalid where the occurrence writes a scratch block

  [[nodiscard]] GapId after(Position p, std::size_t touch_index) const {
    return gap_after[first_touch[p] + touch_index];
  }
};

[[nodiscard]] Liveness analyze_liveness(const TrainingGraph& graph, const ProgramOrder& order);

// Whether touch `i` of an occurrence goes to a scratch block.
[[nodiscard]] inline bool is_scratch(const Occurrence& occurrence, std::size_t touch_index) {
  return touch_index < 32 && ((occurrence.scratch >> touch_index) & 1U) != 0;
}

}  // namespace tidemark
