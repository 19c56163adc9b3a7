#include "scenarios/studies/compare.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <tuple>

#include <fmt/format.h>

#include "graph/core/errors.hpp"
#include "policies/plan_policies.hpp"
#include "policies/solver/plan_grid.hpp"
#include "scenarios/read/document_json.hpp"
#include "scenarios/read/located_error.hpp"
#include "scenarios/read/short_form.hpp"
#include "scenarios/studies/compare_parts.hpp"
#include "scenarios/studies/parallel.hpp"
#include "scenarios/studies/smaller_budget.hpp"
#include "sim/result/pareto.hpp"
#include "sim/step/run_compiled.hpp"

namespace tidemark {
namespace {

// Times that a plan is made again because the step takes more than the plan says: the libraries'
// workspaces and what optimizers need are no part of a micro-batch.
constexpr int kAttempts = 3;

bool has_schedule(const PlanFigures& plan) {
  return plan.infeasible.empty() && plan.status != name_of(PlanStatus::kInfeasible) &&
         plan.status != name_of(PlanStatus::kUnknown);
}

bool within(const PointResult& point, std::int64_t budget) {
  return point.status != PointStatus::kError && point.run.live.bytes <= budget;
}

// The figures of one list of policies under one budget, or under none, and the run behind them
// where it is wanted.
struct Evaluation {
  PointResult point;
  std::shared_ptr<const DetailedPoint> detail;
};

// Evaluates lists of policies; each call is independent of the others.
class Evaluator {
 public:
  virtual ~Evaluator() = default;
  [[nodiscard]] virtual PointResult keep_all() const = 0;
  // One evaluation per budget, ascending; with no budgets the list once. `done` after each.
  [[nodiscard]] virtual std::vector<Evaluation> evaluate(
      std::size_t list, const std::vector<std::int64_t>& ascending,
      const std::function<void()>& done) const = 0;
  // What the list's policies plan on under this budget: the same where they share a cost graph.
  [[nodiscard]] virtual std::string problem(std::size_t list,
                                            std::optional<std::int64_t> budget) const = 0;
};

// Simulated on the scenario's device.
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
    return simulated(none, nullptr).point;
  }

  // A rewrite that takes the budget makes another model for each.
  [[nodiscard]] std::string problem(std::size_t list,
                                    std::optional<std::int64_t> budget) const override {
    const Value document = changed(with_budget(spec_.lists[list], budget, 0));
    try {
      return decode_scenario(document, environment_).training_key;
    } catch (const UserError& error) {  // of this budget; its row says so
      return error.what();
    }
  }

  [[nodiscard]] std::vector<Evaluation> evaluate(std::size_t list,
                                                 const std::vector<std::int64_t>& ascending,
                                                 const std::function<void()>& done) const override {
    std::vector<Evaluation> row;
    if (ascending.empty()) {
      row.push_back(simulated(with_budget(spec_.lists[list], std::nullopt, 0), nullptr));
      done();
      return row;
    }
    const Evaluation* best = nullptr;  // of the smaller budgets
    std::string best_problem;
    row.reserve(ascending.size());
    for (const std::int64_t budget : ascending) {
      const std::string planned_on = problem(list, budget);
      const bool same = best != nullptr && planned_on == best_problem;
      Evaluation found = planned(list, budget, same ? &best->point : nullptr);
      const bool better =
          best == nullptr || !within(best->point, budget) ||
          (within(found.point, budget) && found.point.run.step <= best->point.run.step);
      if (!better) {
        const std::optional<PlanFigures> bound = plan_of(found.point);
        found = *best;
        if (same) keep_bound(found.point, bound);
      }
      row.push_back(std::move(found));
      if (within(row.back().point, budget)) {
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

  // Lists that agree on everything that a model depends on share it.
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

  [[nodiscard]] Evaluation simulated(const Value& list,
                                     const std::vector<PolicyOutcome>* smaller_budget) const {
    const Value document = changed(list);
    std::optional<Scenario> decoded;
    Evaluation found;
    PointDetail detail;
    try {
      decoded.emplace(decode_scenario(document, environment_));
      const Scenario& scenario = *decoded;
      // That of a rewrite with a budget is nobody else's.
      const auto known = models_.find(scenario.training_key);
      const std::shared_ptr<const TrainedModel> model =
          known != models_.end() ? known->second
                                 : std::make_shared<const TrainedModel>(build_training(scenario));
      detail.model = model;
      found.point =
          simulate(scenario, *model, compile(scenario, *model, {.smaller_budget = smaller_budget}),
                   {.smallest_capacity = false}, detailed_ ? &detail : nullptr);
    } catch (const UserError& error) {
      found.point.name = decoded ? decoded->name : std::string();
      found.point.status = PointStatus::kError;
      found.point.error = located(error, document).problem();
      return found;
    }
    if (detailed_) {
      found.detail = std::make_shared<const DetailedPoint>(
          DetailedPoint{document, *std::move(decoded), found.point, std::move(detail)});
    }
    return found;
  }

  // Planned for the budget and, where the step then takes more than the plan, for less.
  [[nodiscard]] Evaluation planned(std::size_t list, std::int64_t budget,
                                   const PointResult* smaller) const {
    std::int64_t beside = 0;  // bytes that are live beside what the plan counts
    Evaluation found;
    std::optional<PlanFigures> asked;  // for the whole budget: its bound is the one that counts
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
      found = simulated(with_budget(spec_.lists[list], budget, beside),
                        smaller == nullptr ? nullptr : &smaller->policies);
      const PointResult& point = found.point;
      const std::optional<PlanFigures> plan = plan_of(point);
      if (!asked) asked = plan;
      if (within(point, budget) || !plan || !plan->infeasible.empty()) break;
      if (point.peak.phase == Phase::kOptimizer) break;
      const std::int64_t more = point.run.live.bytes - plan->peak;
      if (more <= beside || more >= budget) break;
      beside = more;
    }
    keep_bound(found.point, asked);
    return found;
  }

  // The list with what its solvers lack: a budget, for plans `beside` bytes less, and where to
  // stop.
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

// Replayed on a cost graph.
class CostGraphEvaluator final : public Evaluator {
 public:
  CostGraphEvaluator(const Scenario& scenario, const CompareSpec& spec)
      : name_(scenario.name),
        spec_(spec),
        problem_(remat_problem(read_cost_graph(scenario.model.name))) {}

  [[nodiscard]] PointResult keep_all() const override {
    Schedule once(problem_.size());
    std::iota(once.begin(), once.end(), NodeIndex{0});
    const Replay replayed = replay(problem_, once);
    PointResult point = empty();
    point.run.live.bytes = replayed.peak;
    point.run.step = Duration(replayed.cost);
    return point;
  }

  [[nodiscard]] std::string problem(std::size_t /*list*/,
                                    std::optional<std::int64_t> /*budget*/) const override {
    return {};
  }

  [[nodiscard]] std::vector<Evaluation> evaluate(std::size_t list,
                                                 const std::vector<std::int64_t>& ascending,
                                                 const std::function<void()>& done) const override {
    const std::vector<ListedPolicy> listed = listed_policies(spec_.lists[list]);
    if (listed.empty()) {
      done();
      return {{.point = keep_all()}};
    }
    const CostGraphPlanner planner =
        cost_graph_planner(listed.front(), fmt::format("compare.policies[{}]", list));
    PlanRequest request = planner.request;
    const Value& parameters = listed.front().parameters;
    if (parameters.find("iterations") == nullptr && parameters.find("time_limit") == nullptr) {
      request.iterations = spec_.iterations;
      request.time_limit = spec_.time_limit;
    }
    std::vector<std::int64_t> budgets = ascending;
    if (budgets.empty()) budgets.push_back(request.budget > 0 ? request.budget : kUnlimited.count);
    std::vector<Evaluation> row;
    try {
      const PlanFunction counted = [&](const RematProblem& problem, const PlanRequest& asked) {
        PlanResult result = planner.plan(problem, asked);
        done();
        return result;
      };
      const auto grid = plan_grid(problem_, std::span(&counted, 1), budgets, request);
      for (std::size_t k = 0; k < budgets.size(); ++k)
        row.push_back(
            {.point = point_of(listed.front().name, grid.front()[k], request, budgets[k])});
    } catch (const UserError& error) {
      row.assign(budgets.size(), {.point = empty()});
      for (Evaluation& found : row) {
        found.point.status = PointStatus::kError;
        found.point.error = error.problem();
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
                                     const PlanRequest& request, std::int64_t budget) const {
    PointResult point = empty();
    PlanFigures plan{.status = name_of(result.status),
                     .schedule_class = name_of(request.schedule_class),
                     .budget = budget,
                     .base_cost = problem_.base_cost,
                     .lower_bound = result.lower_bound};
    if (result.solution) {
      plan.peak = result.solution->replay.peak;
      plan.cost = result.solution->replay.cost;
      point.run.live.bytes = plan.peak;
      point.run.step = Duration(plan.cost);
      point.run.recompute = Duration(plan.cost - problem_.base_cost);
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
      Failure failure;
      failure.reason = failure.message = plan.infeasible;
      point.failure = std::move(failure);
    }
    return point;
  }

  std::string name_;
  const CompareSpec& spec_;
  RematProblem problem_;
};

// Holds a point to its budget.
void judge(ComparePoint& compared, const PointResult& base) {
  PointResult& point = compared.result;
  compared.plan = plan_of(point);
  if (point.status == PointStatus::kError) return;
  const bool planned_over = compared.plan && !compared.plan->infeasible.empty();
  if (compared.budget && !planned_over && !within(point, *compared.budget)) {
    const std::int64_t peak = point.run.live.bytes;
    Failure failure;
    failure.reason = failure.message = fmt::format(
        "{} live at the peak{}{}, {} more than the budget", format_bytes(Bytes(peak)),
        point.peak.op.empty() ? "" : " in ", point.peak.op.empty() ? "" : name_of(point.peak.phase),
        format_bytes(Bytes(peak - *compared.budget)));
    point.failure = std::move(failure);
    point.status = PointStatus::kInfeasible;
  }
  if (planned_over) return;
  if (base.run.step.count() > 0) {
    compared.overhead = static_cast<double>((point.run.step - base.run.step).count()) /
                        static_cast<double>(base.run.step.count());
  }
}

// A bound that one policy has proven holds for the others of its class on the same problem, and one
// for more memory holds for less.
void share_bounds(const Evaluator& evaluator, std::vector<ComparePoint>& points) {
  // Class, what is planned on, and base cost: of several micro-batches one is reported.
  using Key = std::tuple<std::string_view, std::string, std::int64_t>;
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
      std::int64_t proven = begin == 0 ? 0 : *same[begin - 1]->plan->lower_bound;
      for (end = begin; end < same.size() && same[end]->plan->budget == same[begin]->plan->budget;
           ++end)
        proven = std::max(proven, *same[end]->plan->lower_bound);
      for (std::size_t i = begin; i < end; ++i) {
        PlanFigures& plan = *same[i]->plan;
        plan.lower_bound = proven;
        if (!has_schedule(plan)) continue;
        if (proven > 0) {
          same[i]->gap = static_cast<double>(plan.cost - proven) / static_cast<double>(proven);
        }
        if (plan.cost <= proven) plan.status = name_of(PlanStatus::kOptimal);
        set_plan(same[i]->result, plan);
      }
    }
  }
}

void mark_front(std::vector<ComparePoint>& points) {
  std::vector<TradeOff> runs;
  for (const ComparePoint& point : points) {
    runs.push_back({.name = {},
                    .memory = point.result.run.live.bytes,
                    .seconds = static_cast<double>(point.result.run.step.count()),
                    .fits = point.result.status == PointStatus::kFits});
  }
  for (const std::size_t i : pareto_front(runs))
    points[i].best = true;
}

std::vector<std::int64_t> budgets_of(const CompareSpec& spec, const PointResult& base) {
  std::vector<std::int64_t> budgets;
  for (const CompareSpec::Budget& budget : spec.budgets) {
    const auto peak = static_cast<double>(base.run.live.bytes);
    budgets.push_back(budget.share ? std::llround(*budget.share * peak) : budget.bytes);
  }
  return budgets;
}

}  // namespace

Comparison compare(const Value& document, const Environment& environment, int threads,
                   const CompareListener& listener) {
  const CompareSpec spec = decode_compare(document, environment);
  const Value base = comparable(document, environment);
  const Scenario scenario = decode_scenario(base, environment);
  Comparison result{.name = scenario.name,
                    .cost_graph = scenario.model.kind == ModelKind::kCostGraph,
                    .capacity = scenario.device.hbm.capacity};
  std::unique_ptr<const Evaluator> evaluator;
  if (result.cost_graph) {
    evaluator = std::make_unique<CostGraphEvaluator>(scenario, spec);
  } else {
    evaluator = std::make_unique<DeviceEvaluator>(base, spec, environment,
                                                  static_cast<bool>(listener.detail));
  }
  result.base = evaluator->keep_all();

  const std::vector<std::int64_t> budgets = budgets_of(spec, result.base);
  std::vector<std::int64_t> ascending = budgets;
  std::sort(ascending.begin(), ascending.end());
  ascending.erase(std::unique(ascending.begin(), ascending.end()), ascending.end());
  const auto evaluations = [&](std::size_t list) {
    return spec.solves[list] && !ascending.empty() ? ascending.size() : 1;
  };
  std::size_t total = 0;
  std::vector<std::size_t> first;  // evaluation of each list
  for (std::size_t list = 0; list < spec.lists.size(); ++list) {
    first.push_back(total);
    total += evaluations(list);
  }
  std::mutex mutex;
  std::size_t done = 0;
  std::vector<std::vector<PointResult>> rows(spec.lists.size());
  for_each_parallel(spec.lists.size(), threads, [&](std::size_t list) {
    const std::vector<Evaluation> row =
        evaluator->evaluate(list, spec.solves[list] ? ascending : std::vector<std::int64_t>(), [&] {
          const std::lock_guard lock(mutex);
          ++done;
          if (listener.progress) listener.progress(done, total);
        });
    for (const Evaluation& found : row) {
      if (found.detail != nullptr) listener.detail(first[list] + rows[list].size(), found.detail);
      rows[list].push_back(found.point);
    }
  });

  for (std::size_t list = 0; list < rows.size(); ++list) {
    const std::vector<PointResult>& row = rows[list];
    for (std::size_t k = 0; k < std::max<std::size_t>(budgets.size(), 1); ++k) {
      ComparePoint& point = result.points.emplace_back();
      point.list = list;
      if (!budgets.empty()) point.budget = budgets[k];
      std::size_t at = 0;
      if (row.size() > 1) {
        at = static_cast<std::size_t>(
            std::lower_bound(ascending.begin(), ascending.end(), budgets[k]) - ascending.begin());
      }
      point.evaluation = first[list] + at;
      point.result = row[at];
      point.result.overrides.emplace_back("policies", as_json(spec.lists[list]));
      if (point.budget)
        point.result.overrides.emplace_back("budget", std::to_string(*point.budget));
      judge(point, result.base);
    }
  }
  share_bounds(*evaluator, result.points);
  mark_front(result.points);
  return result;
}

}  // namespace tidemark
