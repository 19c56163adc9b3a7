#include "sim/result/time_breakdown.hpp"

#include <algorithm>

namespace tidemark {

Bound bound_of(const CostTable& costs, OperatorId id) {
  const Duration duration = costs.device[id];
  const Duration memory = costs.memory[id];
  const Duration slack = costs.slack[id];
  // slack = duration - memory - the launch floor, unless traffic takes longer than arithmetic.
  const Duration floor = std::max(duration - memory - slack, Duration(0));
  if (floor * 2 > duration) return Bound::kLaunch;
  return slack > Duration(0) ? Bound::kCompute : Bound::kMemory;
}

void KernelSum::add(const Operator& op, Bound bound, Duration duration) {
  ++kernels;
  time[static_cast<std::size_t>(bound)] += duration;
  flops += op.work.flops;
  bytes += op.work.read + op.work.written + op.work.apart;
}

KernelSum& KernelSum::operator+=(const KernelSum& other) {
  kernels += other.kernels;
  for (std::size_t b = 0; b < kBounds; ++b)
    time[b] += other.time[b];
  flops += other.flops;
  bytes += other.bytes;
  return *this;
}

Bound KernelSum::bound() const {
  return static_cast<Bound>(std::max_element(time.begin(), time.end()) - time.begin());
}

TimeBreakdown time_breakdown(const TrainingGraph& graph, const StepProgram& program,
                             const CostTable& costs, const Scratch& scratch) {
  TimeBreakdown breakdown;
  std::array<KernelSum, kOperatorClasses> by_class{};
  for_each_kernel(program, scratch, [&](OperatorId id, const Slot& slot, Duration duration) {
    const Operator& op = graph.operators[id];
    if (op.work.op_class == OperatorClass::kNone) return;
    by_class[static_cast<std::size_t>(op.work.op_class)].add(op, bound_of(costs, id), duration);
    if (slot.phase != Phase::kOptimizer && computes_model(op.part))
      breakdown.hardware_flops += op.work.flops;
  });
  const auto ran = [](const KernelSum& sum) { return sum.kernels > 0; };
  const auto classes = std::count_if(by_class.begin(), by_class.end(), ran);
  breakdown.by_class.reserve(static_cast<std::size_t>(classes));
  for (std::size_t c = 0; c < by_class.size(); ++c) {
    if (!ran(by_class[c])) continue;
    breakdown.by_class.push_back({static_cast<OperatorClass>(c), by_class[c]});
    breakdown.all += by_class[c];
  }
  return breakdown;
}

}  // namespace tidemark
