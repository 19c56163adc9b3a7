// Simulates lists of policies on a device.
#include <map>
#include <utility>

#include "graph/core/errors.hpp"
#include "policies/plan_policies.hpp"
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
    Value none = mapping_value(base_.location);
    none.kind = Value::Kind::kSequence;
    model_of(none);
    for (const Value& list : spec_.lists)
      model_of(list);
  }

  [[nodiscard]] PointResult keep_all() const override {
    Value none = mapping_value(base_.location);
    none.kind = Value::Kind::kSequence;
    return simulated(none, nullptr).result;
  }

  // Returns a text with the budget where a rewrite takes it, since the rewrite makes another model
  // for each.
  [[nodiscard]] std::string problem(std::size_t list,
                                    std::optional<std::int64_t> budget) const override {
    const Value document = changed(with_budget(spec_.lists[list], budget, 0));
    try {
      return decode_scenario(document, environment_).training_key;
    } catch (const UserError& error) {  // error of this budget; its row says so
      return error.what();
    }
  }

  [[nodiscard]] std::vector<SimulatedPoint> evaluate(
      std::size_t list, const std::vector<std::int64_t>& ascending,
      const std::function<void()>& done) const override {
    std::vector<SimulatedPoint> row;
    if (ascending.empty()) {
      row.push_back(simulated(with_budget(spec_.lists[list], std::nullopt, 0), nullptr));
      done();
      return row;
    }
    const SimulatedPoint* best = nullptr;  // best result of the smaller budgets
    std::string best_problem;
    row.reserve(ascending.size());
    for (const std::int64_t budget : ascending) {
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

  [[nodiscard]] SimulatedPoint simulated(const Value& list,
                                         const std::vector<PolicyOutcome>* smaller_budget) const {
    const Value document = changed(list);
    std::string name;
    try {
      Scenario scenario = decode_scenario(document, environment_);
      name = scenario.name;
      // No other list shares the model of a rewrite with a budget.
      const auto known = models_.find(scenario.training_key);
      std::shared_ptr<const TrainedModel> model =
          known != models_.end() ? known->second
                                 : std::make_shared<const TrainedModel>(build_training(scenario));
      return simulate_point(document, std::move(scenario), std::move(model), environment_,
                            {.options = {.smallest_capacity = false},
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
  [[nodiscard]] SimulatedPoint planned(std::size_t list, std::int64_t budget,
                                       const PointResult* smaller) const {
    std::int64_t beside = 0;  // live bytes that the plan does not count
    SimulatedPoint found;
    // figures for the whole budget: its bound is the one that counts
    std::optional<PlanFigures> asked;
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
      found = simulated(with_budget(spec_.lists[list], budget, beside),
                        smaller == nullptr ? nullptr : &smaller->policies);
      const PointResult& point = found.result;
      const std::optional<PlanFigures> plan = plan_of(point);
      if (!asked) asked = plan;
      if (within(point, budget) || !plan || !plan->infeasible.empty()) break;
      if (point.peak.phase == Phase::kOptimizer) break;
      const std::int64_t more = point.run.live.bytes.count - plan->peak.count;
      if (more <= beside || more >= budget) break;
      beside = more;
    }
    keep_bound(found.result, asked);
    return found;
  }

  // Returns the list with what its solvers lack: a budget, for plans `beside` bytes less, and their
  // limits.
  [[nodiscard]] Value with_budget(const Value& list, std::optional<std::int64_t> budget,
                                  std::int64_t beside) const {
    Value result = list;
    for (Value& item : result.items) {
      const std::string name = item.is_mapping() ? item.entries.front().key : item.scalar;
      const PolicyKeys keys(*environment_.policies.find(name));
      if (!keys.has_budget()) continue;
      Value parameters = mapping_value(item.location);
      if (item.is_mapping() && item.entries.front().value.is_mapping()) {
        parameters = item.entries.front().value;
      }
      const auto add = [&](const std::string& key, const std::string& text) {
        set_entry(parameters, key, item.location, text_value(text, item.location));
      };
      if (budget && parameters.find("budget") == nullptr) {
        add("budget", std::to_string(*budget - (find_plan_policy(name) == nullptr ? 0 : beside)));
      }
      const bool limited =
          parameters.find("iterations") != nullptr || parameters.find("time_limit") != nullptr;
      if (keys.has("iterations") && !limited) add("iterations", std::to_string(spec_.iterations));
      if (keys.has("time_limit") && !limited) add("time_limit", write_duration(spec_.time_limit));
      Value mapping = mapping_value(item.location);
      set_entry(mapping, name, item.location, std::move(parameters));
      item = std::move(mapping);
    }
    return result;
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
