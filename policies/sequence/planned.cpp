#include "policies/sequence/planned.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "graph/core/errors.hpp"
#include "policies/residency/memory_curve.hpp"
#include "policies/sequence/laid_out_peaks.hpp"
#include "policies/solver/lower_bound.hpp"
#include "policies/solver/plan_policy.hpp"
#include "policies/solver/step_costs.hpp"

namespace tidemark {
namespace {

// A micro-batch of one step: neighbouring positions [begin, end).
struct MicroBatch {
  Position begin;
  Position end;
  std::size_t plan = 0;  // which of the distinct ones
};

struct Plan {
  std::vector<OperatorId> operators;
  StepCosts costs;
  RematProblem problem;
  // Where something lives elsewhere and is fetched: the problem with as little of it as any
  // schedule needs, only what each operator itself touches. Its bounds hold for every order of
  // fetches.
  std::optional<RematProblem> fetched_least;
  Schedule schedule;
  std::int64_t budget = 0;  // that was asked for
  std::string reason;       // why no schedule fits, if none does
};

// Times that a plan is made where its program fetches more at a time, or less, than the order
// without repeats.
constexpr int kAttempts = 4;

// A parameter's value as it stands in the scenario.
std::string text_of(const Value& value) {
  std::string text = value.scalar;
  for (const Value& item : value.items)
    text += fmt::format("[{}]", text_of(item));
  for (const Value::Entry& entry : value.entries)
    text += fmt::format("{{{}: {}}}", entry.key, text_of(entry.value));
  return text;
}

class Planned final : public SequencePolicy {
 public:
  // `label`: the policy with its parameters.
  Planned(const PlanPolicy& policy, std::string label, PlanFunction plan,
          const PlanRequest& request, bool budget_given)
      : policy_(policy),
        label_(std::move(label)),
        plan_(std::move(plan)),
        request_(request),
        budget_given_(budget_given) {}
  [[nodiscard]] std::string_view name() const override { return policy_.name; }

  void share_plans(PlanCache& cache) { cache_ = &cache; }

  [[nodiscard]] ProgramOrder order(const PolicyContext& context,
                                   PolicyOutcome& outcome) const override {
    std::vector<Plan> plans;
    const std::vector<MicroBatch> micro_batches = find_micro_batches(context, plans);
    make_problems(context, micro_batches, plans);
    const std::int64_t budget = budget_given_ ? request_.budget : device_budget(context).count;
    const std::vector<std::int64_t> kept_all = laid_out(context, micro_batches, plans, true).peaks;
    std::vector<PlanFigures> figures;
    for (std::size_t i = 0; i < plans.size(); ++i) {
      // Where keeping all fits, though the cost graph counts more, so does the plan.
      const bool all_fits = kept_all[i] <= budget;
      const std::int64_t counted = replay(plans[i].problem, plans[i].schedule).peak;
      figures.push_back(solve(context, plans, i, all_fits ? std::max(budget, counted) : budget));
      figures.back().budget = budget;
    }
    LaidOut result = laid_out(context, micro_batches, plans, false);
    if (budget_given_) refit(context, micro_batches, plans, figures, result);
    for (std::size_t i = 0; i < plans.size(); ++i) {
      settle(plans[i], result.peaks[i], figures[i]);
      // Of several kinds of micro-batch the one that needs most memory counts.
      if (!outcome.plan || figures[i].peak > outcome.plan->peak) outcome.plan = figures[i];
    }
    if (outcome.plan) {
      for (const Plan& plan : plans)
        outcome.plan->schedules.push_back(plan.schedule);
    }
    return std::move(result.order);
  }

 private:
  [[nodiscard]] static std::vector<MicroBatch> find_micro_batches(const PolicyContext& context,
                                                                  std::vector<Plan>& plans) {
    IdVector<OperatorId, char> inside(context.graph.operators.size(), 0);
    for (const auto* part :
         {&context.graph.forward, &context.graph.backward, &context.graph.backward_accumulate}) {
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
      const auto known = std::find_if(plans.begin(), plans.end(), [&](const Plan& plan) {
        return plan.operators == operators;
      });
      micro_batch.plan = static_cast<std::size_t>(known - plans.begin());
      if (known == plans.end())
        plans.push_back({.operators = operators,
                         .costs = {},
                         .problem = {},
                         .schedule = {},
                         .budget = 0,
                         .reason = {}});
    }
    return found;
  }

  void make_problems(const PolicyContext& context, std::span<const MicroBatch> micro_batches,
                     std::vector<Plan>& plans) const {
    const auto costs_with = [&](const Plan& plan, std::vector<std::int64_t> visitors) {
      return step_costs(context.graph, plan.operators, context.durations,
                        request_.schedule_class == ScheduleClass::kUnrestricted,
                        context.device.framework, std::move(visitors));
    };
    const bool fetches =
        std::any_of(context.graph.storages.begin(), context.graph.storages.end(),
                    [](const Storage& storage) { return storage.home != Tier::kDevice; });
    const std::vector<std::int64_t> visiting =
        fetches ? visiting_bytes(context) : std::vector<std::int64_t>();
    for (std::size_t i = 0; i < plans.size(); ++i) {
      Plan& plan = plans[i];
      std::vector<std::int64_t> visitors(plan.operators.size());
      std::vector<std::int64_t> touched(plan.operators.size());
      for (const MicroBatch& micro_batch : micro_batches) {
        if (!fetches || micro_batch.plan != i) continue;
        for (std::size_t k = 0; k < visitors.size(); ++k)
          visitors[k] = std::max(visitors[k], visiting[micro_batch.begin.index() + k]);
      }
      for (std::size_t k = 0; k < touched.size(); ++k)
        touched[k] = touched_elsewhere(context.graph, plan.operators[k]);
      const bool visited =
          std::any_of(visitors.begin(), visitors.end(), [](std::int64_t b) { return b > 0; });
      plan.costs = costs_with(plan, std::move(visitors));
      plan.problem = remat_problem(plan.costs.graph);
      plan.schedule = once_each(plan.problem);
      if (visited) plan.fetched_least = remat_problem(costs_with(plan, std::move(touched)).graph);
    }
  }

  // Bytes of what lives elsewhere among what the operator touches.
  [[nodiscard]] static std::int64_t touched_elsewhere(const TrainingGraph& graph, OperatorId op) {
    std::int64_t bytes = 0;
    std::vector<StorageId> seen;
    for (const Touch& touch : graph.touches_of(op)) {
      const Storage& storage = graph.storages[touch.storage];
      if (storage.home == Tier::kDevice) continue;
      if (std::find(seen.begin(), seen.end(), touch.storage) != seen.end()) continue;
      seen.push_back(touch.storage);
      bytes += storage.bytes.count;
    }
    return bytes;
  }

  [[nodiscard]] static Schedule once_each(const RematProblem& problem) {
    Schedule schedule(problem.size());
    std::iota(schedule.begin(), schedule.end(), NodeIndex{0});
    return schedule;
  }

  struct LaidOut {
    ProgramOrder order;
    std::vector<std::int64_t> peaks;  // by plan, as laid_out_peaks()
  };
  // `in_order`: even what changes nothing is laid out in the order of its cost graph.
  [[nodiscard]] LaidOut laid_out(const PolicyContext& context,
                                 std::span<const MicroBatch> micro_batches,
                                 const std::vector<Plan>& plans, bool in_order) const {
    LaidOut result;
    ProgramOrder& order = result.order;
    order.steps = context.order.steps;
    order.micro_batches = context.order.micro_batches;
    std::vector<Stretch> stretches;
    auto next = micro_batches.begin();
    for (Position p = Position(0U); p.index() < context.order.at.size();) {
      if (next == micro_batches.end() || p < next->begin) {
        order.at.push_back(context.order.at[p]);
        ++p.value;
        continue;
      }
      const Position begin(order.at.size());
      lay_out(context.order.at[next->begin], plans[next->plan], in_order, order);
      stretches.push_back({begin, Position(order.at.size())});
      p = next->end;
      ++next;
    }
    const std::vector<std::int64_t> peaks = laid_out_peaks(context, order, stretches);
    result.peaks.resize(plans.size());
    for (std::size_t k = 0; k < peaks.size(); ++k) {
      std::int64_t& most = result.peaks[micro_batches[k].plan];
      most = std::max(most, peaks[k]);
    }
    return result;
  }

  // What is fetched along a schedule is known once it is laid out. Where that is more than was
  // planned with, or less, plans are made again for as much less or more; the cheapest that keeps
  // to the budget stays.
  void refit(const PolicyContext& context, std::span<const MicroBatch> micro_batches,
             std::vector<Plan>& plans, std::vector<PlanFigures>& figures, LaidOut& result) const {
    constexpr std::int64_t kNearly = 500;  // slack of one part in so many is none
    struct Fitting {
      Plan plan;
      PlanFigures figures;
    };
    std::vector<std::optional<Fitting>> best(plans.size());
    for (int attempt = 1;; ++attempt) {
      bool again = false;
      for (std::size_t i = 0; i < plans.size(); ++i) {
        Plan& plan = plans[i];
        if (!plan.fetched_least) continue;
        const std::int64_t budget = figures[i].budget;
        const std::int64_t slack = budget - result.peaks[i];
        const bool cheaper = !best[i] || figures[i].cost < best[i]->figures.cost;
        if (slack >= 0 && cheaper) best[i] = {plan, figures[i]};
        const bool done = slack < 0 ? !plan.reason.empty()
                                    : slack <= budget / kNearly || !cheaper ||
                                          figures[i].cost == figures[i].base_cost;
        if (done || attempt == kAttempts) continue;
        figures[i] = solve(context, plans, i, plan.budget + slack);
        figures[i].budget = budget;
        again = true;
      }
      if (!again) break;
      result = laid_out(context, micro_batches, plans, false);
    }
    for (std::size_t i = 0; i < plans.size(); ++i) {
      if (!best[i]) continue;
      plans[i] = std::move(best[i]->plan);
      figures[i] = std::move(best[i]->figures);
    }
    result = laid_out(context, micro_batches, plans, false);
  }

  // The schedule of the same micro-batch for a smaller budget, if there is one that fits.
  [[nodiscard]] static const Schedule* known_schedule(const PolicyContext& context,
                                                      std::size_t index) {
    const PolicyOutcome* smaller = context.smaller_budget;
    if (smaller == nullptr || !smaller->plan || !smaller->plan->infeasible.empty()) return nullptr;
    const auto& schedules = smaller->plan->schedules;
    return index < schedules.size() ? &schedules[index] : nullptr;
  }

  // Plans for `budget`; what stands in the way of it is in `reason` of the plan.
  [[nodiscard]] PlanFigures solve(const PolicyContext& context, std::vector<Plan>& plans,
                                  std::size_t index, std::int64_t budget) const {
    Plan& plan = plans[index];
    PlanRequest request = request_;
    request.budget = plan.budget = budget;
    request.time_limit /= static_cast<std::int64_t>(plans.size());
    if (plan.fetched_least) request.time_limit /= kAttempts;
    request.known = known_schedule(context, index);
    if (request.known != nullptr && replay(plan.problem, *request.known).peak > budget)
      request.known = nullptr;
    PlanResult result = named(plan.problem, request);
    if (result.solution) plan.schedule = std::move(result.solution->schedule);
    plan.reason = std::move(result.reason);
    const Replay replayed = replay(plan.problem, plan.schedule);
    return {.status = name_of(result.status),
            .schedule_class = name_of(request.schedule_class),
            .peak = replayed.peak,
            .cost = replayed.cost,
            .base_cost = plan.problem.base_cost,
            .lower_bound = result.lower_bound};
  }

  // Whether the plan keeps to its budget, now that it is known what it takes as laid out.
  void settle(const Plan& plan, std::int64_t laid_out_peak, PlanFigures& figures) const {
    if (plan.fetched_least) settle_fetched(*plan.fetched_least, laid_out_peak, figures);
    // The program's own order may take more than the cost graph's.
    if (stays_as_it_is(plan)) figures.peak = laid_out_peak;
    const bool fits = figures.peak <= figures.budget ||
                      (figures.peak <= plan.budget && laid_out_peak <= figures.budget);
    const bool solved = figures.status == name_of(PlanStatus::kOptimal) ||
                        figures.status == name_of(PlanStatus::kFeasible);
    if (fits && !solved) {
      const bool least = figures.lower_bound && figures.cost <= *figures.lower_bound;
      figures.status = name_of(least ? PlanStatus::kOptimal : PlanStatus::kFeasible);
    }
    if (fits || !budget_given_) return;
    figures.infeasible = !plan.reason.empty()
                             ? plan.reason
                             : fmt::format(
                                   "{} needs at least {} ({} bytes) here, with what is "
                                   "fetched; another policy may fit",
                                   policy_.name, format_bytes(Bytes(laid_out_peak)), laid_out_peak);
    // With the operator's name: a scenario shows no numbers of nodes.
    const RematProblem& problem = plan.fetched_least ? *plan.fetched_least : plan.problem;
    const NodeIndex largest = problem.largest_footprint();
    const Bytes footprint(problem.footprint(largest));
    if (footprint.count <= figures.budget) return;
    figures.status = name_of(PlanStatus::kInfeasible);
    figures.infeasible = fmt::format(
        "{} alone takes {}, {} bytes (what is there all the time, its inputs, output and "
        "workspace)",
        plan.costs.graph.nodes[CostNodeId(largest)].name, format_bytes(footprint), footprint.count);
  }

  // What is fetched when is known now: the peak is that of the program, and the bound one that
  // holds however parameters are fetched.
  static void settle_fetched(const RematProblem& least, std::int64_t laid_out_peak,
                             PlanFigures& figures) {
    figures.peak = laid_out_peak;
    figures.lower_bound.reset();
    figures.status = name_of(PlanStatus::kUnknown);
    if (least.footprint(least.largest_footprint()) > figures.budget) return;
    for (const ScheduleClass c : kScheduleClasses) {
      if (figures.schedule_class == name_of(c))
        figures.lower_bound = cut_bound(least, figures.budget, c);
    }
    if (figures.lower_bound == kNoSchedule) {
      figures.lower_bound.reset();
      figures.status = name_of(PlanStatus::kInfeasible);
    }
  }

  // What a graph is not fit for is said of this policy.
  [[nodiscard]] PlanResult named(const RematProblem& problem, const PlanRequest& request) const {
    try {
      const auto make = [&] { return plan_(problem, request); };
      return cache_ == nullptr ? make() : cache_->plan(label_, problem, request, make);
    } catch (const UserError& error) {
      throw UserError({}, fmt::format("policies.{}", policy_.name), error.what());
    }
  }

  // Whether every operator runs once, in the order of the cost graph.
  [[nodiscard]] static bool changes_nothing(const Plan& plan) {
    if (plan.schedule.size() != plan.costs.operators.size()) return false;
    return std::is_sorted(plan.schedule.begin(), plan.schedule.end());
  }

  [[nodiscard]] bool stays_as_it_is(const Plan& plan) const {
    return !budget_given_ && changes_nothing(plan);
  }

  // Without a budget, where nothing is computed again, the program stays as it is. The plan's peak
  // is that of the cost graph's order, which has operators in place right behind what makes their
  // storage: a budget needs that order.
  void lay_out(Occurrence occurrence, const Plan& plan, bool in_order, ProgramOrder& into) const {
    if (!in_order && stays_as_it_is(plan)) {
      for (const OperatorId op : plan.operators) {
        occurrence.op = op;
        into.at.push_back(occurrence);
      }
      return;
    }
    IdVector<CostNodeId, char> computed(plan.costs.operators.size(), 0);
    for (const NodeIndex index : plan.schedule) {
      const CostNodeId node(index);
      occurrence.recompute = std::exchange(computed[node], 1) != 0;
      for (const OperatorId op : plan.costs.operators[node]) {
        occurrence.op = op;
        into.at.push_back(occurrence);
      }
    }
  }

  const PlanPolicy& policy_;
  std::string label_;
  PlanFunction plan_;
  PlanRequest request_;
  bool budget_given_;
  PlanCache* cache_ = nullptr;
};

AnyPolicy decode_planned(const PlanPolicy& policy, const Decoder& d) {
  PlanFunction plan = policy.decode(d);
  const PlanRequest request = decode_request(d, policy, {});
  const bool budget_given = d.has("budget") && !request.saved_share;
  d.finish();
  return std::make_unique<Planned>(policy, fmt::format("{}: {}", policy.name, text_of(d.value())),
                                   std::move(plan), request, budget_given);
}

constexpr std::size_t kEntries = 12;

template <std::size_t... I>
std::array<PolicyEntry, sizeof...(I)> entries_of(std::index_sequence<I...> /*all*/) {
  return {
      PolicyEntry{.name = plan_policies()[I].name,
                  .kind = "sequence",
                  .summary = plan_policies()[I].summary,
                  .source = plan_policies()[I].source,
                  .decode = [](const Decoder& d, const RewriteContext& /*context*/) -> AnyPolicy {
                    return decode_planned(plan_policies()[I], d);
                  }}...};
}

}  // namespace

AnyPolicy planned_policy(std::string_view name, const Decoder& parameters) {
  const PlanPolicy* policy = find_plan_policy(name);
  if (policy == nullptr) throw InternalError(fmt::format("no plan is called {}", name));
  return decode_planned(*policy, parameters);
}

void share_plans(const AnyPolicy& policy, PlanCache& cache) {
  const auto* sequence = std::get_if<std::unique_ptr<SequencePolicy>>(&policy);
  if (sequence == nullptr) return;
  if (auto* planned = dynamic_cast<Planned*>(sequence->get())) planned->share_plans(cache);
}

std::span<const PolicyEntry> planned_entries() {
  static const std::array<PolicyEntry, kEntries> kAll =
      entries_of(std::make_index_sequence<kEntries>());
  return kAll;
}

}  // namespace tidemark
