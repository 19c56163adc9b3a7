#include "policies/sequence/laid_out_peaks.hpp"

#include <algorithm>

#include "policies/plan/rewrite.hpp"
#include "policies/residency/memory_curve.hpp"
#include "policies/solver/step_costs.hpp"

namespace tidemark {
namespace laid_out_peaks_detail {
namespace {

// Plans the fetches of values whose home is off device.
ResidencyPlan fetches_of(const PolicyContext& context) {
  ResidencyPlan plan(context.live);
  for (std::size_t i = 0; i < context.rewrites.size(); ++i) {
    plan.begin_policy(i, context.rewrites[i]->name());
    context.rewrites[i]->plan_movement(context, plan);
  }
  return plan;
}

}  // namespace
}  // namespace laid_out_peaks_detail

std::vector<Bytes> laid_out_peaks(const PolicyContext& context, const ProgramOrder& order,
                                  std::span<const Stretch> stretches) {
  const TrainingGraph& graph = context.graph;
  const Liveness live = analyze_liveness(graph, order);
  const PolicyContext laid_out{.graph = graph,
                               .order = order,
                               .live = live,
                               .durations = context.durations,
                               .device = context.device,
                               .rewrites = context.rewrites};
  const MemoryCurve curve(laid_out, laid_out_peaks_detail::fetches_of(laid_out));
  const FrameworkProfile& libraries = context.device.framework;
  // The matrix products' library takes its workspace with the first of them, and keeps it.
  Position first_product(order.at.size());
  for (const Position p : ids_of(order.at)) {
    if (graph.operators[order.at[p].op].work.op_class != OperatorClass::kMatmul) continue;
    first_product = p;
    break;
  }
  std::vector<Bytes> peaks;
  for (const Stretch& stretch : stretches) {
    Bytes peak;
    for (Position p = stretch.begin; p < stretch.end; ++p.value) {
      const Operator& op = graph.operators[order.at[p].op];
      Bytes bytes = curve.at(p) - op.workspace + workspace_of(op, libraries);
      if (p >= first_product) bytes += libraries.cublas_workspace;
      peak = std::max(peak, bytes);
    }
    peaks.push_back(peak);
  }
  return peaks;
}

std::vector<Bytes> visiting_bytes(const PolicyContext& context) {
  const MemoryCurve curve(context, laid_out_peaks_detail::fetches_of(context),
                          MemoryCurve::Counts::kVisitors);
  std::vector<Bytes> bytes;
  bytes.reserve(context.order.at.size());
  for (const Position p : ids_of(context.order.at))
    bytes.push_back(curve.at(p));
  return bytes;
}

}  // namespace tidemark
