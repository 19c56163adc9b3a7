// Simulates lists of policies on a device.
#include <map>
#include <utility>

#include "graph/core/errors.hpp"
#include "scenarios/read/located_error.hpp"
#include "scenarios/read/short_form.hpp"
#include "scenarios/studies/compare_parts.hpp"
#include "scenarios/studies/evaluator.hpp"
#include "scenarios/studies/simulate_point.hpp"
#include "scenarios/studies/smaller_budget.hpp"

namespace tidemark {
namespace device_evaluator_detail {
namespace {

// Most attempts at a plan when the step takes more than the plan says: the libraries' workspaces
// and the memory of optimizers are no part of a micro-batch.
constexpr int kAttempts = 3;

// Simulates lists on the scenario's device.
class DeviceEvaluator final : public Evaluator {
 public:
  DeviceEvaluator(Value base, const CompareSpec& spec, const Environment& environment,
                  bool detailed)
      : base_(std::move(base)), spec_(spec), environment_(environment), detailed_(detailed) {
    model_of(*base_.find("policies"));
    for (const Value& list : spec_.lists)
      model_of(list);
  }

  [[nodiscard]] PointResult keep_all() const override {
    return simulated(*base_.find("policies"), std::nullopt, Bytes(0), nullptr).result;
  }

  // Returns a text with the budget where a rewrite takes it, since the rewrite makes another model
  // for each.
  [[nodiscard]] std::string problem(std::size_t list, std::optional<Bytes> budget) const override {
    try {
      return decoded(changed(spec_.lists[list]), spec_.lists[list], budget, Bytes(0)).training_key;
    } catch (const UserError& error) {  // error of this budget; its row says so
      return error.what();
    }
  }

  [[nodiscard]] std::vector<SimulatedPoint> evaluate(
      std::size_t list, const std::vector<Bytes>& ascending,
      const std::function<void()>& done) const override {
    std::vector<SimulatedPoint> row;
    if (ascending.empty()) {
      row.push_back(simulated(spec_.lists[list], std::nullopt, Bytes(0), nullptr));
      done();
      return row;
    }
    const SimulatedPoint* best = nullptr;  // best result of the smaller budgets
    std::string best_problem;
    row.reserve(ascending.size());
    for (const Bytes budget : ascending) {
      const std::string planned_on = problem(list, budget);
      const bool same = best != nullptr && planned_on == best_problem;
      SimulatedPoint found = planned(list, budget, same ? &best->result : nullptr);
      const bool better =
          best == nullptr || !within(best->result, budget) ||
          (within(found.result, budget) && found.result.run.step <= best->result.run.step);
      if (!better) {
        const std::optional<PlanFigures> bound = plan_of(found.result);
        found = *best;
        if (same) keep_bound(found.result, bound);
      }
      row.push_back(std::move(found));
      if (within(row.back().result, budget)) {
        best = &row.back();
        if (better) best_problem = planned_on;
      }
      done();
    }
    return row;
  }

 private:
  [[nodiscard]] Value changed(const Value& list) const {
    Value document = base_;
    set_entry(document, "policies", list.location, list);
    return document;
  }

  // Lists that agree on everything that a model depends on share the model.
  void model_of(const Value& list) {
    const Value document = changed(list);
    const Scenario scenario = decode_scenario(document, environment_);
    auto& model = models_[scenario.training_key];
    try {
      if (model == nullptr) model = std::make_shared<const TrainedModel>(build_training(scenario));
    } catch (const UserError& error) {
      throw located(error, document);
    }
  }

  // Returns the scenario of `document`, which has `list` as its policies, with the budget and the
  // limits that the list does not give itself.
  [[nodiscard]] Scenario decoded(const Value& document, const Value& list,
                                 std::optional<Bytes> budget, Bytes reserve) const {
    Scenario scenario = decode_scenario(document, environment_);
    limit_searches(scenario, spec_.limits);
    if (budget) set_budgets(scenario, listed_policies(list), *budget, reserve);
    return scenario;
  }

  [[nodiscard]] SimulatedPoint simulated(const Value& list, std::optional<Bytes> budget,
                                         Bytes reserve,
                                         const std::vector<PolicyOutcome>* smaller_budget) const {
    const Value document = changed(list);
    std::string name;
    try {
      Scenario scenario = decoded(document, list, budget, reserve);
      name = scenario.name;
      // No other list shares the model of a rewrite with a budget.
      const auto known = models_.find(scenario.training_key);
      std::shared_ptr<const TrainedModel> model =
          known != models_.end() ? known->second
                                 : std::make_shared<const TrainedModel>(build_training(scenario));
      return simulate_point(
          document, std::move(scenario), std::move(model), environment_,
          {.options = {.smallest_capacity = false, .convergence_limit = kConvergenceLimit},
           .smaller_budget = smaller_budget,
           .detailed = detailed_});
    } catch (const UserError& error) {
      SimulatedPoint found;
      found.result.name = name;
      found.result.status = PointStatus::kError;
      found.result.error = located(error, document).problem();
      return found;
    }
  }

  // Plans for the budget and, where the step then takes more than the plan, for less.
  [[nodiscard]] SimulatedPoint planned(std::size_t list, Bytes budget,
                                       const PointResult* smaller) const {
    Bytes reserve;  // live bytes that the plan does not count
    SimulatedPoint found;
    // figures for the whole budget: its bound is the one that counts
    std::optional<PlanFigures> asked;
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
      found = simulated(spec_.lists[list], budget, reserve,
                        smaller == nullptr ? nullptr : &smaller->policies);
      const PointResult& point = found.result;
      const std::optional<PlanFigures> plan = plan_of(point);
      if (!asked) asked = plan;
      if (within(point, budget) || !plan || !plan->infeasible.empty()) break;
      if (point.peak.phase == Phase::kOptimizer) break;
      const Bytes more = point.run.live.bytes - plan->peak;
      if (more <= reserve || more >= budget) break;
      reserve = more;
    }
    keep_bound(found.result, asked);
    return found;
  }

  Value base_;
  const CompareSpec& spec_;
  const Environment& environment_;
  bool detailed_;
  std::map<std::string, std::shared_ptr<const TrainedModel>> models_;
};

}  // namespace
}  // namespace device_evaluator_detail

std::unique_ptr<const Evaluator> device_evaluator(Value base, const CompareSpec& spec,
                                                  const Environment& environment, bool detailed) {
  return std::make_unique<const device_evaluator_detail::DeviceEvaluator>(std::move(base), spec,
                                                                          environment, detailed);
}

}  // namespace tidemark
