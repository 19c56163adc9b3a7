#include "policies/sequence/laid_out_peaks.hpp"

#include <algorithm>

#include "policies/solver/step_costs.hpp"

namespace tidemark {

std::vector<std::int64_t> laid_out_peaks(const PolicyContext& context, const ProgramOrder& order,
                                         std::span<const Stretch> stretches) {
  const TrainingGraph& graph = context.graph;
  const Liveness live = analyze_liveness(graph, order);
  std::vector<std::int64_t> released(order.at.size());  // bytes, behind each position
  for (const Gap& gap : live.gaps) {
    if (gap.dead) released[gap.release.index()] += graph.storages[gap.storage].bytes.count;
  }
  std::vector<std::int64_t> during(order.at.size());
  std::int64_t bytes = 0;
  for (const Storage& storage : graph.storages)
    bytes += storage.initial ? storage.bytes.count : 0;
  bool multiplied = false;
  for (const Position p : ids_of(order.at)) {
    const Operator& op = graph.operators[order.at[p].op];
    // The matrix products' library takes its workspace with the first of them, and keeps it.
    if (!multiplied && op.work.op_class == OperatorClass::kMatmul) {
      multiplied = true;
      bytes += context.device.framework.cublas_workspace.count;
    }
    for (const Touch& touch : graph.touches_of(order.at[p].op)) {
      if (touch.access == Access::kCreate) bytes += graph.storages[touch.storage].bytes.count;
    }
    during[p.index()] = bytes + workspace_of(op, context.device.framework);
    bytes -= released[p.index()];
  }
  std::vector<std::int64_t> peaks;
  for (const Stretch& stretch : stretches) {
    std::int64_t peak = 0;
    for (Position p = stretch.begin; p < stretch.end; ++p.value)
      peak = std::max(peak, during[p.index()]);
    peaks.push_back(peak);
  }
  return peaks;
}

}  // namespace tidemark
