#include "policies/sequence/micro_batch_plans.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "policies/sequence/laid_out_peaks.hpp"

namespace tidemark {
namespace micro_batch_plans_detail {
namespace {

// Returns the bytes that the operator touches of storages whose home is off device.
Bytes touched_elsewhere(const TrainingGraph& graph, OperatorId op) {
  Bytes bytes;
  std::vector<StorageId> seen;
  for (const Touch& touch : graph.touches_of(op)) {
    const Storage& storage = graph.storages[touch.storage];
    if (storage.home == Tier::kDevice) continue;
    if (std::find(seen.begin(), seen.end(), touch.storage) != seen.end()) continue;
    seen.push_back(touch.storage);
    bytes += storage.bytes;
  }
  return bytes;
}

Schedule once_each(const RematProblem& problem) {
  Schedule schedule(problem.size());
  std::iota(schedule.begin(), schedule.end(), NodeIndex{0});
  return schedule;
}

}  // namespace
}  // namespace micro_batch_plans_detail

std::vector<MicroBatch> find_micro_batches(const PolicyContext& context,
                                           std::vector<MicroBatchPlan>& plans) {
  IdVector<OperatorId, char> inside(context.graph.operators.size(), 0);
  for (const auto* part :
       {&context.graph.part(PartKind::kForward), &context.graph.part(PartKind::kForwardLater),
        &context.graph.part(PartKind::kBackward), &context.graph.part(PartKind::kBackwardFirst),
        &context.graph.part(PartKind::kBackwardAccumulate),
        &context.graph.part(PartKind::kBackwardReduce),
        &context.graph.part(PartKind::kBackwardReduceFirst)}) {
    for (const OperatorId op : *part)
      inside[op] = 1;
  }
  std::vector<MicroBatch> found;
  std::vector<OperatorId> operators;
  for (const Position p : ids_of(context.order.at)) {
    const Occurrence& at = context.order.at[p];
    if (inside[at.op] == 0) continue;
    const bool same = !found.empty() && found.back().end == p &&
                      context.order.at[found.back().begin].step == at.step &&
                      context.order.at[found.back().begin].micro_batch == at.micro_batch;
    if (!same) found.push_back({.begin = p, .end = p});
    found.back().end = Position(p.value + 1);
  }
  for (MicroBatch& micro_batch : found) {
    operators.clear();
    for (Position p = micro_batch.begin; p < micro_batch.end; ++p.value)
      operators.push_back(context.order.at[p].op);
    const auto known = std::find_if(plans.begin(), plans.end(), [&](const MicroBatchPlan& plan) {
      return plan.operators == operators;
    });
    micro_batch.plan = static_cast<std::size_t>(known - plans.begin());
    if (known == plans.end()) {
      plans.push_back({.operators = operators,
                       .costs = {},
                       .problem = {},
                       .schedule = {},
                       .budget = {},
                       .reason = {}});
    }
  }
  return found;
}

void make_problems(const PolicyContext& context, std::span<const MicroBatch> micro_batches,
                   bool unrestricted, std::vector<MicroBatchPlan>& plans) {
  const auto costs_with = [&](const MicroBatchPlan& plan, std::vector<Bytes> visitors) {
    return step_costs(context.graph, plan.operators, context.durations, unrestricted,
                      context.device.framework, std::move(visitors));
  };
  const bool fetches =
      std::any_of(context.graph.storages.begin(), context.graph.storages.end(),
                  [](const Storage& storage) { return storage.home != Tier::kDevice; });
  const std::vector<Bytes> visiting = fetches ? visiting_bytes(context) : std::vector<Bytes>();
  for (std::size_t i = 0; i < plans.size(); ++i) {
    MicroBatchPlan& plan = plans[i];
    std::vector<Bytes> visitors(plan.operators.size());
    std::vector<Bytes> touched(plan.operators.size());
    for (const MicroBatch& micro_batch : micro_batches) {
      if (!fetches || micro_batch.plan != i) continue;
      for (std::size_t k = 0; k < visitors.size(); ++k)
        visitors[k] = std::max(visitors[k], visiting[micro_batch.begin.index() + k]);
    }
    for (std::size_t k = 0; k < touched.size(); ++k)
      touched[k] = micro_batch_plans_detail::touched_elsewhere(context.graph, plan.operators[k]);
    const bool visited =
        std::any_of(visitors.begin(), visitors.end(), [](Bytes b) { return b > Bytes(0); });
    plan.costs = costs_with(plan, std::move(visitors));
    plan.problem = remat_problem(plan.costs.graph);
    plan.schedule = micro_batch_plans_detail::once_each(plan.problem);
    if (visited) plan.fetched_least = remat_problem(costs_with(plan, std::move(touched)).graph);
  }
}

}  // namespace tidemark
