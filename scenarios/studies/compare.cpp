#include "scenarios/studies/compare.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>

#include <fmt/format.h>

#include "graph/core/errors.hpp"
#include "scenarios/read/short_form.hpp"
#include "scenarios/studies/compare_parts.hpp"
#include "scenarios/studies/evaluator.hpp"
#include "scenarios/studies/parallel.hpp"
#include "scenarios/studies/smaller_budget.hpp"
#include "sim/result/pareto.hpp"
#include "sim/step/failure_report.hpp"

namespace tidemark {
namespace compare_detail {
namespace {

// Judges whether a point keeps its budget.
void judge(ComparePoint& compared, const PointResult& base) {
  PointResult& point = compared.result;
  compared.plan = plan_of(point);
  if (point.status == PointStatus::kError) return;
  const bool planned_over = compared.plan && !compared.plan->infeasible.empty();
  if (compared.budget && !planned_over && !within(point, *compared.budget)) {
    const Bytes peak = point.run.live.bytes;
    point.failure = failure_because(fmt::format(
        "{} live at the peak{}{}, {} more than the budget", format_bytes(peak),
        point.peak.op.empty() ? "" : " in ", point.peak.op.empty() ? "" : name_of(point.peak.phase),
        format_bytes(peak - *compared.budget)));
    point.status = PointStatus::kInfeasible;
  }
  if (planned_over) return;
  if (base.run.step.count() > 0) {
    compared.overhead = static_cast<double>((point.run.step - base.run.step).count()) /
                        static_cast<double>(base.run.step.count());
  }
}

// Gives a bound to a policy's plan and, where the plan is what was simulated, the plan's gap to it.
void take_bound(ComparePoint& point, Duration proven, bool is_simulated) {
  PlanFigures& plan = *point.plan;
  plan.lower_bound = proven;
  if (!plan.infeasible.empty() || !has_schedule(plan.status)) return;
  if (proven.count() > 0 && is_simulated) {
    point.gap =
        static_cast<double>((plan.cost - proven).count()) / static_cast<double>(proven.count());
  }
  if (plan.cost <= proven) plan.status = PlanStatus::kOptimal;
  set_plan(point.result, plan);
}

// Shares proven bounds: a bound that one policy has proven holds for the others of its class on the
// same problem, and one for more memory holds for less.
void share_bounds(const Evaluator& evaluator, const std::vector<int>& deciding,
                  std::vector<ComparePoint>& points) {
  // Points share a bound by class, problem and base cost: of several micro-batches one is reported.
  using Key = std::tuple<std::string_view, std::string, Duration>;
  std::map<Key, std::vector<ComparePoint*>> problems;
  for (ComparePoint& point : points) {
    if (!point.plan || !point.plan->lower_bound) continue;
    const std::string planned_on = evaluator.problem(point.list, point.budget);
    problems[{point.plan->schedule_class, planned_on, point.plan->base_cost}].push_back(&point);
  }
  for (auto& [key, same] : problems) {
    std::stable_sort(same.begin(), same.end(), [](const ComparePoint* a, const ComparePoint* b) {
      return a->plan->budget > b->plan->budget;
    });
    for (std::size_t begin = 0, end = 0; begin < same.size(); begin = end) {
      Duration proven = begin == 0 ? Duration() : *same[begin - 1]->plan->lower_bound;
      for (end = begin; end < same.size() && same[end]->plan->budget == same[begin]->plan->budget;
           ++end)
        proven = std::max(proven, *same[end]->plan->lower_bound);
      for (std::size_t i = begin; i < end; ++i)
        take_bound(*same[i], proven, deciding[same[i]->list] == 1);
    }
  }
}

// Expresses what the plans add, and what they are proven to add at least, as shares of the step
// without policies.
void fill_overheads(Comparison& comparison, const CompareSpec& spec) {
  const RunResult& base = comparison.base.run;
  if (base.step.count() <= 0) return;
  const auto share = [&](Duration extra) {
    return static_cast<double>(extra.count()) / static_cast<double>(base.step.count());
  };
  // Compute that waits, for the host or a reduction, may do so less where it recomputes.
  const Duration idle = comparison.cost_graph
                            ? Duration{}
                            : base.step - base.busy[static_cast<std::size_t>(Stream::kCompute)];
  for (ComparePoint& point : comparison.points) {
    if (!point.plan) continue;
    const PlanFigures& plan = *point.plan;
    const int micro_batches = spec.micro_batches[point.list];
    if (plan.infeasible.empty())
      point.planned_overhead = share((plan.cost - plan.base_cost) * micro_batches);
    const bool alone = spec.lists[point.list].items.size() == 1 + spec.common &&
                       spec.deciding[point.list] <= 1 && comparison.base.ranks == 1;
    // The bound is that of one kind of micro-batch.
    if (!plan.lower_bound || !alone || plan.schedules.size() > 1) continue;
    const Duration least = (*plan.lower_bound - plan.base_cost) * micro_batches - idle;
    if (least.count() >= 0) point.least_overhead = share(least);
  }
}

void mark_front(std::vector<ComparePoint>& points) {
  std::vector<TradeOff> runs;
  runs.reserve(points.size());
  for (const ComparePoint& point : points) {
    runs.push_back({.name = {},
                    .memory = point.result.run.live.bytes,
                    .seconds = static_cast<double>(point.result.run.step.count()),
                    .fits = point.result.status == PointStatus::kFits});
  }
  for (const std::size_t i : pareto_front(runs))
    points[i].best = true;
}

std::vector<Bytes> budgets_of(const CompareSpec& spec, const PointResult& base) {
  std::vector<Bytes> budgets;
  for (const CompareSpec::Budget& budget : spec.budgets) {
    const auto peak = static_cast<double>(base.run.live.bytes.count);
    budgets.push_back(budget.share ? Bytes(std::llround(*budget.share * peak)) : budget.bytes);
  }
  return budgets;
}

std::size_t place_of(Bytes budget, const std::vector<Bytes>& ascending) {
  const auto at = std::lower_bound(ascending.begin(), ascending.end(), budget);
  return static_cast<std::size_t>(at - ascending.begin());
}

// Names the settings in which a point differs from the base scenario.
void add_overrides(ComparePoint& point, const Value& list) {
  point.result.overrides.push_back({"policies", list});
  if (!point.budget) return;
  point.result.overrides.push_back({"budget", text_value(std::to_string(point.budget->count), {})});
}

}  // namespace
}  // namespace compare_detail

Comparison compare(const Value& document, const Environment& environment, int threads,
                   const CompareListener& listener) {
  const CompareSpec spec = decode_compare(document, environment);
  const Value base = comparable(document, environment);
  const Scenario scenario = decode_scenario(base, environment);
  Comparison result{.name = scenario.name,
                    .cost_graph = scenario.model.kind == ModelKind::kCostGraph,
                    .capacity = scenario.device.hbm.capacity,
                    .common = *base.find("policies")};
  std::unique_ptr<const Evaluator> evaluator;
  if (result.cost_graph) {
    evaluator = cost_graph_evaluator(scenario, spec);
  } else {
    evaluator = device_evaluator(base, spec, environment, static_cast<bool>(listener.detail));
  }
  result.base = evaluator->keep_all();

  const std::vector<Bytes> budgets = compare_detail::budgets_of(spec, result.base);
  std::vector<Bytes> ascending = budgets;
  std::sort(ascending.begin(), ascending.end());
  ascending.erase(std::unique(ascending.begin(), ascending.end()), ascending.end());
  const auto evaluations = [&](std::size_t list) {
    return spec.solves[list] && !ascending.empty() ? ascending.size() : 1;
  };
  std::size_t total = 0;
  std::vector<std::size_t> first;  // first evaluation of each list
  for (std::size_t list = 0; list < spec.lists.size(); ++list) {
    first.push_back(total);
    total += evaluations(list);
  }
  std::mutex mutex;
  std::size_t done = 0;
  std::vector<std::vector<PointResult>> rows(spec.lists.size());
  for_each_parallel(spec.lists.size(), threads, [&](std::size_t list) {
    const std::vector<SimulatedPoint> row =
        evaluator->evaluate(list, spec.solves[list] ? ascending : std::vector<Bytes>(), [&] {
          const std::lock_guard lock(mutex);
          ++done;
          if (listener.progress) listener.progress(done, total);
        });
    for (const SimulatedPoint& found : row) {
      if (found.detail != nullptr) listener.detail(first[list] + rows[list].size(), found.detail);
      rows[list].push_back(found.result);
    }
  });

  for (std::size_t list = 0; list < rows.size(); ++list) {
    const std::vector<PointResult>& row = rows[list];
    for (std::size_t k = 0; k < std::max<std::size_t>(budgets.size(), 1); ++k) {
      ComparePoint& point = result.points.emplace_back();
      point.list = list;
      if (!budgets.empty()) point.budget = budgets[k];
      // A list that takes no budget has been evaluated once for all of them.
      const std::size_t at =
          row.size() > 1 ? compare_detail::place_of(budgets[k], ascending) : std::size_t{0};
      point.evaluation = first[list] + at;
      point.result = row[at];
      compare_detail::add_overrides(point, spec.lists[list]);
      compare_detail::judge(point, result.base);
    }
  }
  compare_detail::share_bounds(*evaluator, spec.deciding, result.points);
  compare_detail::fill_overheads(result, spec);
  compare_detail::mark_front(result.points);
  return result;
}

}  // namespace tidemark
