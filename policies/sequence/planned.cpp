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
#include "policies/sequence/micro_batch_plans.hpp"
#include "policies/solver/lower_bound.hpp"
#include "policies/solver/plan_cache.hpp"
#include "policies/solver/plan_request.hpp"
#include "policies/solver/solver_policies.hpp"

namespace tidemark {
namespace planned_detail {
namespace {

// Number of times that a plan is made if its program fetches more at a time, or less, than the
// order without repeats.
constexpr int kAttempts = 4;

// An order with memory held back may search for one part of the time in so many: a few are asked
// for after one for the whole device, and together they are to take less time than that one.
constexpr int kHeldBackTimeParts = 8;

// Returns a parameter's value as the scenario writes it.
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

  [[nodiscard]] std::optional<Bytes> budget() const override {
    return budget_given_ ? std::optional(request_.budget) : std::nullopt;
  }
  [[nodiscard]] bool set_budget(Bytes budget) override {
    request_.budget = budget;
    request_.saved_share.reset();
    budget_given_ = true;
    return true;
  }
  bool limit_search(const SearchLimits& limits) override {
    return policy_.search.time_limit && tidemark::limit_search(request_, limits);
  }

  [[nodiscard]] std::vector<std::unique_ptr<SequencePolicy>> stand_ins() const override {
    std::vector<std::unique_ptr<SequencePolicy>> found;
    if (!policy_.any_schedule) return found;
    PlanRequest request = request_;  // with its limits
    request.saved_share.reset();
    request.known = nullptr;
    for (const PlanPolicy& policy : solver_policies()) {
      if (policy.any_schedule || policy.search.seed) continue;
      found.push_back(std::make_unique<Planned>(
          policy, fmt::format("{}: {}", policy.name, name_of(request.schedule_class)),
          policy.decode(Decoder()), request, false));
    }
    return found;
  }
  [[nodiscard]] bool fills_device() const override { return !budget_given_; }
  [[nodiscard]] ProgramOrder order(const PolicyContext& context,
                                   PolicyOutcome& outcome) const override {
    std::vector<MicroBatchPlan> plans;
    const std::vector<MicroBatch> micro_batches = find_micro_batches(context, plans);
    make_problems(context, micro_batches, request_.schedule_class == ScheduleClass::kUnrestricted,
                  plans);
    const Bytes budget = budget_given_ ? request_.budget : device_budget(context);
    const std::vector<Bytes> kept_all = laid_out(context, micro_batches, plans, true).peaks;
    std::vector<PlanFigures> figures;
    for (std::size_t i = 0; i < plans.size(); ++i) {
      // If keeping all fits, though the cost graph counts more, so does the plan.
      const bool all_fits = kept_all[i] <= budget;
      const Bytes counted(evaluate(plans[i].problem, plans[i].schedule).peak);
      figures.push_back(solve(context, plans, i, all_fits ? std::max(budget, counted) : budget));
      figures.back().budget = budget;
    }
    LaidOut result = laid_out(context, micro_batches, plans, false);
    if (budget_given_) refit(context, micro_batches, plans, figures, result);
    for (std::size_t i = 0; i < plans.size(); ++i) {
      settle(plans[i], result.peaks[i], figures[i]);
      // If there are several kinds of micro-batch, the one that needs most memory counts.
      if (!outcome.plan || figures[i].peak > outcome.plan->peak) outcome.plan = figures[i];
    }
    if (outcome.plan) {
      for (const MicroBatchPlan& plan : plans)
        outcome.plan->schedules.push_back(plan.schedule);
    }
    return std::move(result.order);
  }

 private:
  struct LaidOut {
    ProgramOrder order;
    std::vector<Bytes> peaks;  // by plan, as laid_out_peaks()
  };
  // `in_order`: even a plan that changes nothing is laid out in the order of its cost graph.
  [[nodiscard]] LaidOut laid_out(const PolicyContext& context,
                                 std::span<const MicroBatch> micro_batches,
                                 const std::vector<MicroBatchPlan>& plans, bool in_order) const {
    LaidOut result;
    ProgramOrder& order = result.order;
    order.steps = context.order.steps;
    order.micro_batches = context.order.micro_batches;
    order.in_flight = context.order.in_flight;
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
    const std::vector<Bytes> peaks = laid_out_peaks(context, order, stretches);
    result.peaks.resize(plans.size());
    for (std::size_t k = 0; k < peaks.size(); ++k) {
      Bytes& most = result.peaks[micro_batches[k].plan];
      most = std::max(most, peaks[k]);
    }
    return result;
  }

  // Replans for fetches. The fetches along a schedule are known once it is laid out. If they take
  // more or less than was planned with, plans are made anew for as much less or more; the cheapest
  // that keeps to the budget stays.
  void refit(const PolicyContext& context, std::span<const MicroBatch> micro_batches,
             std::vector<MicroBatchPlan>& plans, std::vector<PlanFigures>& figures,
             LaidOut& result) const {
    constexpr std::int64_t kNearly = 500;  // slack of one part in so many is none
    struct Fitting {
      MicroBatchPlan plan;
      PlanFigures figures;
    };
    std::vector<std::optional<Fitting>> best(plans.size());
    for (int attempt = 1;; ++attempt) {
      bool again = false;
      for (std::size_t i = 0; i < plans.size(); ++i) {
        MicroBatchPlan& plan = plans[i];
        if (!plan.fetched_least) continue;
        const Bytes budget = figures[i].budget;
        const Bytes slack = budget - result.peaks[i];
        const bool cheaper = !best[i] || figures[i].cost.count() < best[i]->figures.cost.count();
        if (slack >= Bytes(0) && cheaper) best[i] = {plan, figures[i]};
        const bool done = slack < Bytes(0)
                              ? !plan.reason.empty()
                              : slack <= budget / kNearly || !cheaper ||
                                    figures[i].cost.count() == figures[i].base_cost.count();
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

  // Returns the schedule of the same micro-batch for a smaller budget, if there is one that fits.
  [[nodiscard]] static const Schedule* known_schedule(const PolicyContext& context,
                                                      std::size_t index) {
    const PolicyOutcome* smaller = context.smaller_budget;
    if (smaller == nullptr || !smaller->plan || !smaller->plan->infeasible.empty()) return nullptr;
    const auto& schedules = smaller->plan->schedules;
    return index < schedules.size() ? &schedules[index] : nullptr;
  }

  // Makes plans for `budget`; `reason` of a plan says why it fails.
  [[nodiscard]] PlanFigures solve(const PolicyContext& context, std::vector<MicroBatchPlan>& plans,
                                  std::size_t index, Bytes budget) const {
    MicroBatchPlan& plan = plans[index];
    PlanRequest request = request_;
    plan.budget = budget;
    request.budget = budget;
    request.time_limit /= static_cast<std::int64_t>(plans.size());
    if (plan.fetched_least) request.time_limit /= kAttempts;
    if (context.held_back > Bytes(0)) request.time_limit /= kHeldBackTimeParts;
    request.known = known_schedule(context, index);
    if (request.known != nullptr && evaluate(plan.problem, *request.known).peak > budget.count)
      request.known = nullptr;
    PlanResult result = named(context, plan.problem, request);
    if (result.solution) plan.schedule = std::move(result.solution->schedule);
    plan.reason = std::move(result.reason);
    const Evaluation evaluated = evaluate(plan.problem, plan.schedule);
    return {.status = result.status,
            .schedule_class = name_of(request.schedule_class),
            .peak = Bytes(evaluated.peak),
            .cost = Duration(evaluated.cost),
            .base_cost = Duration(plan.problem.base_cost),
            .lower_bound = as_duration(result.lower_bound)};
  }

  // Decides whether the plan keeps to its budget, now that its memory as laid out is known.
  void settle(const MicroBatchPlan& plan, Bytes laid_out_peak, PlanFigures& figures) const {
    if (plan.fetched_least) settle_fetched(*plan.fetched_least, laid_out_peak, figures);
    // The program's own order may take more than the cost graph's.
    if (stays_as_it_is(plan)) figures.peak = laid_out_peak;
    const bool fits = figures.peak <= figures.budget ||
                      (figures.peak <= plan.budget && laid_out_peak <= figures.budget);
    if (fits && !has_schedule(figures.status)) {
      const bool least = figures.lower_bound && figures.cost <= *figures.lower_bound;
      figures.status = least ? PlanStatus::kOptimal : PlanStatus::kFeasible;
    }
    if (fits || !budget_given_) return;
    figures.infeasible = !plan.reason.empty()
                             ? plan.reason
                             : fmt::format(
                                   "{} needs at least {} ({} bytes) here, with what is "
                                   "fetched; another policy may fit",
                                   policy_.name, format_bytes(laid_out_peak), laid_out_peak.count);
    // The reason names the operator: a scenario shows no numbers of nodes.
    const RematProblem& problem = plan.fetched_least ? *plan.fetched_least : plan.problem;
    const NodeIndex largest = problem.largest_footprint();
    const Bytes footprint(problem.footprint(largest));
    if (footprint <= figures.budget) return;
    figures.status = PlanStatus::kInfeasible;
    figures.infeasible = fmt::format(
        "{} alone takes {}, {} bytes (what is there all the time, its inputs, output and "
        "workspace)",
        plan.costs.graph.nodes[CostNodeId(largest)].name, format_bytes(footprint), footprint.count);
  }

  // Settles a plan whose fetches are known: the peak is that of the program, and the bound one that
  // holds however parameters are fetched.
  static void settle_fetched(const RematProblem& least, Bytes laid_out_peak, PlanFigures& figures) {
    figures.peak = laid_out_peak;
    figures.lower_bound.reset();
    figures.status = PlanStatus::kUnknown;
    if (least.footprint(least.largest_footprint()) > figures.budget.count) return;
    for (const ScheduleClass c : kScheduleClasses) {
      if (figures.schedule_class != name_of(c)) continue;
      const std::int64_t bound = cut_bound(least, figures.budget.count, c);
      if (bound != kNoSchedule) {
        figures.lower_bound = Duration(bound);
      } else {
        figures.status = PlanStatus::kInfeasible;
      }
    }
  }

  // Plans, and names this policy when a graph is not fit for it.
  [[nodiscard]] PlanResult named(const PolicyContext& context, const RematProblem& problem,
                                 const PlanRequest& request) const {
    try {
      const auto make = [&] { return plan_(problem, request); };
      return context.plans == nullptr ? make()
                                      : context.plans->plan(label_, problem, request, make);
    } catch (const UserError& error) {
      throw UserError({}, fmt::format("policies.{}", policy_.name), error.what());
    }
  }

  // Whether every operator runs once, in the order of the cost graph.
  [[nodiscard]] static bool changes_nothing(const MicroBatchPlan& plan) {
    if (plan.schedule.size() != plan.costs.operators.size()) return false;
    return std::is_sorted(plan.schedule.begin(), plan.schedule.end());
  }

  [[nodiscard]] bool stays_as_it_is(const MicroBatchPlan& plan) const {
    return !budget_given_ && changes_nothing(plan);
  }

  // Lays out one micro-batch. Without a budget, if nothing is recomputed, the program stays as it
  // is. The plan's peak is that of the cost graph's order, which has operators in place right after
  // the one that makes their storage: a budget needs that order.
  void lay_out(Occurrence occurrence, const MicroBatchPlan& plan, bool in_order,
               ProgramOrder& into) const {
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
};

template <std::size_t... I>
std::array<PolicyEntry, sizeof...(I)> entries_of(std::index_sequence<I...> /*all*/) {
  return {
      PolicyEntry{.name = solver_policies()[I].name,
                  .kind = "sequence",
                  .summary = solver_policies()[I].summary,
                  .source = solver_policies()[I].source,
                  .decode = [](const Decoder& d, const RewriteContext& /*context*/) -> AnyPolicy {
                    return planned_policy(solver_policies()[I], d);
                  },
                  .plan = []() -> const PlanPolicy& { return solver_policies()[I]; }}...};
}

}  // namespace
}  // namespace planned_detail

AnyPolicy planned_policy(const PlanPolicy& policy, const Decoder& parameters) {
  PlanFunction plan = policy.decode(parameters);
  const PlanRequest request = decode_request(parameters, policy, {});
  const bool budget_given = parameters.has("budget") && !request.saved_share;
  parameters.finish();
  return std::make_unique<planned_detail::Planned>(
      policy, fmt::format("{}: {}", policy.name, planned_detail::text_of(parameters.value())),
      std::move(plan), request, budget_given);
}

std::span<const PolicyEntry> planned_entries() {
  static const std::array<PolicyEntry, kSolverPolicyCount> all =
      planned_detail::entries_of(std::make_index_sequence<kSolverPolicyCount>());
  return all;
}

}  // namespace tidemark
