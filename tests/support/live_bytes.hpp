// Bytes that are live along a program order, without an allocator: a sweep over the gaps.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "graph/analysis/liveness.hpp"
#include "graph/analysis/program_order.hpp"

namespace tidemark::test {

struct LiveBytes {
  std::vector<std::int64_t> during;  // by position, while the operator runs, workspace included
  std::vector<std::int64_t> after;   // by position, after the operator
  std::int64_t peak = 0;
  Position peak_at;
};

inline LiveBytes live_bytes(const TrainingGraph& graph, const ProgramOrder& order) {
  const Liveness live = analyze_liveness(graph, order);
  LiveBytes result;
  result.during.resize(order.at.size());
  result.after.resize(order.at.size());
  std::vector<std::vector<StorageId>> released(order.at.size());
  for (const Gap& gap : live.gaps) {
    if (gap.dead) released[gap.release.index()].push_back(gap.storage);
  }
  std::int64_t bytes = 0;
  for (const Storage& storage : graph.storages) {
    if (storage.initial) bytes += storage.bytes.count;
  }
  for (Position p : ids_of(order.at)) {
    const Operator& op = graph.operators[order.at[p].op];
    for (const Touch& touch : graph.touches_of(order.at[p].op)) {
      if (touch.access == Access::kCreate) bytes += graph.storages[touch.storage].bytes.count;
    }
    result.during[p.index()] = bytes + op.workspace.count;
    if (!result.peak_at.valid() || result.during[p.index()] > result.peak) {
      result.peak = result.during[p.index()];
      result.peak_at = p;
    }
    for (StorageId s : released[p.index()])
      bytes -= graph.storages[s].bytes.count;
    result.after[p.index()] = bytes;
  }
  return result;
}

// Returns the peak over operators of one phase in one step, less what is live before the first of
// them; nothing is live before the first operator of all.
inline std::int64_t peak_above_start(const TrainingGraph& graph, const ProgramOrder& order,
                                     Phase phase, int step) {
  const LiveBytes live = live_bytes(graph, order);
  std::int64_t start = -1;
  std::int64_t peak = 0;
  for (Position p : ids_of(order.at)) {
    const Occurrence& at = order.at[p];
    if (at.step != step || graph.operators[at.op].phase != phase) continue;
    if (start < 0) start = p.index() == 0 ? 0 : live.after[p.index() - 1];
    peak = std::max(peak, live.during[p.index()] - start);
  }
  return peak;
}

}  // namespace tidemark::test
