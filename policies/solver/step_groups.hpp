// Groups of a micro-batch's operators that run, and are recomputed, as one: see step_costs.hpp.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "graph/core/ids.hpp"
#include "graph/ir/training_graph.hpp"

namespace tidemark {

using StepIndex =
    std::uint32_t;  // index of an operator in the micro-batch; a group has that of its first one
inline constexpr StepIndex kNoStep = ~StepIndex{0};

struct TouchAt {
  StepIndex at = 0;
  Access access = Access::kRead;
  bool hold = false;  // the end of a hold, which reads nothing
};
[[nodiscard]] inline bool writes(const TouchAt& touch) {
  return touch.access != Access::kRead;
}

struct StepGroups {
  IdVector<StorageId, std::vector<TouchAt>> touches;  // touches of each storage in order
  IdVector<StorageId, char>
      read_later;                // read after the micro-batch, for storages that stay on the device
  std::vector<bool> once;        // whether each operator may not be recomputed
  std::vector<StepIndex> group;  // group of each operator
  std::vector<StepIndex> order;  // groups in program order, each at its last operator

  [[nodiscard]] bool is_made_here(StorageId s) const {
    return !touches[s].empty() && touches[s].front().access == Access::kCreate;
  }
};

// Groups operators. In forward, operators in place join the group that makes the storage if nothing
// looks at the content in between and no cycle results. A group that may not be recomputed has
// `once` on all its members.
[[nodiscard]] StepGroups group_operators(const TrainingGraph& graph,
                                         std::span<const OperatorId> micro_batch);

// Calls edge(from, to, read) for operators that follow each other on a content: its writer and all
// that touch it, and (`read`) its readers and the operator that changes it next.
template <class Edge>
void for_each_edge(const StepGroups& groups, Edge edge) {
  for (const StorageId s : ids_of(groups.touches)) {
    StepIndex writer = kNoStep;
    std::vector<StepIndex> readers;
    for (const TouchAt& touch : groups.touches[s]) {
      if (writer != kNoStep) edge(writer, touch.at, false);
      if (!writes(touch)) {
        if (!touch.hold) readers.push_back(touch.at);
        continue;
      }
      for (const StepIndex reader : readers)
        edge(reader, touch.at, true);
      readers.clear();
      writer = touch.at;
    }
  }
}

}  // namespace tidemark
