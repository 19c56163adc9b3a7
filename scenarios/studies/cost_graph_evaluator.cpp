// Evaluates lists of policies on a cost graph.
#include <numeric>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "graph/core/errors.hpp"
#include "graph/import/cost_graph.hpp"
#include "policies/solver/plan_grid.hpp"
#include "policies/solver/plan_request.hpp"
#include "scenarios/studies/compare_parts.hpp"
#include "scenarios/studies/evaluator.hpp"
#include "sim/step/failure_report.hpp"
#include "sim/step/run_compiled.hpp"

namespace tidemark {
namespace cost_graph_evaluator_detail {
namespace {

// Evaluates the schedules of a list on a cost graph.
class CostGraphEvaluator final : public Evaluator {
 public:
  CostGraphEvaluator(const Scenario& scenario, const CompareSpec& spec)
      : name_(scenario.name),
        spec_(spec),
        problem_(remat_problem(read_cost_graph(scenario.model.name))) {}

  [[nodiscard]] PointResult keep_all() const override {
    Schedule once(problem_.size());
    std::iota(once.begin(), once.end(), NodeIndex{0});
    const Evaluation evaluated = tidemark::evaluate(problem_, once);
    PointResult point = empty();
    point.run.live.bytes.count = evaluated.peak;
    point.run.step = Duration(evaluated.cost);
    return point;
  }

  [[nodiscard]] std::string problem(std::size_t /*list*/,
                                    std::optional<Bytes> /*budget*/) const override {
    return {};
  }

  [[nodiscard]] std::vector<SimulatedPoint> evaluate(
      std::size_t list, const std::vector<Bytes>& ascending,
      const std::function<void()>& done) const override {
    const std::vector<ListedPolicy> listed = listed_policies(spec_.lists[list]);
    if (listed.empty()) {
      done();
      return {{.result = keep_all()}};
    }
    const CostGraphPlanner planner =
        cost_graph_planner(listed.front(), fmt::format("compare.policies[{}]", list));
    PlanRequest request = planner.request;
    limit_search(request, spec_.limits);
    std::vector<Bytes> budgets = ascending;
    if (budgets.empty()) budgets.push_back(request.budget > Bytes(0) ? request.budget : kUnlimited);
    std::vector<SimulatedPoint> row;
    try {
      const PlanFunction counted = [&](const RematProblem& problem, const PlanRequest& asked) {
        PlanResult result = planner.plan(problem, asked);
        done();
        return result;
      };
      const auto grid = plan_grid(problem_, std::span(&counted, 1), budgets, request);
      for (std::size_t k = 0; k < budgets.size(); ++k) {
        row.push_back(
            {.result = point_of(listed.front().name, grid.front()[k], request, budgets[k])});
      }
    } catch (const UserError& error) {
      row.assign(budgets.size(), {.result = empty()});
      for (SimulatedPoint& found : row) {
        found.result.status = PointStatus::kError;
        found.result.error = error.problem();
      }
    }
    return row;
  }

 private:
  [[nodiscard]] PointResult empty() const {
    PointResult point;
    point.name = name_;
    point.status = PointStatus::kFits;
    point.operators = problem_.size();
    return point;
  }

  [[nodiscard]] PointResult point_of(const std::string& policy, const PlanResult& result,
                                     const PlanRequest& request, Bytes budget) const {
    PointResult point = empty();
    PlanFigures plan{.status = result.status,
                     .schedule_class = name_of(request.schedule_class),
                     .budget = budget,
                     .base_cost = Duration(problem_.base_cost),
                     .lower_bound = as_duration(result.lower_bound)};
    if (result.solution) {
      plan.peak = Bytes(result.solution->evaluation.peak);
      plan.cost = Duration(result.solution->evaluation.cost);
      point.run.live.bytes = plan.peak;
      point.run.step = plan.cost;
      point.run.recompute = plan.cost - plan.base_cost;
    }
    if (!result.solution || plan.peak > budget) plan.infeasible = result.reason;
    PolicyOutcome& outcome = point.policies.emplace_back();
    outcome.name = policy;
    outcome.plan = plan;
    if (result.solution) {
      outcome.recomputed_operators =
          static_cast<std::int64_t>(result.solution->schedule.size()) - problem_.size();
    }
    if (!plan.infeasible.empty()) {
      point.status = PointStatus::kInfeasible;
      point.failure = failure_because(plan.infeasible);
    }
    return point;
  }

  std::string name_;
  const CompareSpec& spec_;
  RematProblem problem_;
};

}  // namespace
}  // namespace cost_graph_evaluator_detail

std::unique_ptr<const Evaluator> cost_graph_evaluator(const Scenario& scenario,
                                                      const CompareSpec& spec) {
  return std::make_unique<const cost_graph_evaluator_detail::CostGraphEvaluator>(scenario, spec);
}

}  // namespace tidemark
