#include "sim/step/policy_passes.hpp"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <variant>

#include "sim/step/pass_checks.hpp"
#include "sim/step/step_device.hpp"

namespace tidemark {
namespace policy_passes_detail {
namespace {

// Returns the policy as one of the given kind, or null when it is of another.
template <class Kind>
const Kind* as_kind(const AnyPolicy& policy) {
  const auto* found = std::get_if<std::unique_ptr<Kind>>(&policy);
  return found == nullptr ? nullptr : found->get();
}

std::int64_t repeats_in_last_step(const ProgramOrder& order) {
  return std::count_if(order.at.begin(), order.at.end(), [&](const Occurrence& o) {
    return o.recompute && o.step + 1 == order.steps;
  });
}

void add_outcomes(const ResidencyPlan& plan, std::vector<PolicyOutcome>& sums) {
  for (std::size_t i = 0; i < plan.outcomes().size(); ++i) {
    PolicyOutcome& sum = sums[i];
    const PolicyOutcome& outcome = plan.outcomes()[i];
    sum.decided += outcome.decided;
    sum.contested += outcome.contested;
    sum.refused += outcome.refused;
    sum.recomputed_operators += outcome.recomputed_operators;
    sum.offloaded += outcome.offloaded;
  }
}

}  // namespace
}  // namespace policy_passes_detail

PolicyPasses::PolicyPasses(const StepSpec& spec, const TrainingGraph& graph, const CostTable& costs,
                           std::vector<PassTime>& times, TrialsOf trials)
    : spec_(spec),
      graph_(graph),
      times_(times),
      trials_(std::move(trials)),
      durations_(compute_durations(graph, costs)),
      device_(device_of(spec)),
      rewrites_(policies_of<TrainingRewrite>(spec)),
      trains_(spec.training.mode == StepMode::kTrain) {}

PolicyContext PolicyPasses::context_for(const OrderedStep& step) const {
  return {.graph = graph_,
          .order = step.order,
          .live = step.live,
          .durations = durations_,
          .device = device_,
          .process_overhead = process_overhead(spec_),
          .rewrites = rewrites_,
          .plans = spec_.plans};
}

void PolicyPasses::order(OrderedStep& step, const std::vector<PolicyOutcome>* smaller_budget,
                         std::optional<DeviceOrder>& device_order,
                         std::vector<PolicyOutcome>& outcomes) const {
  for (std::size_t i = 0; i < spec_.policies.size(); ++i) {
    const auto* sequence = policy_passes_detail::as_kind<SequencePolicy>(spec_.policies[i]);
    if (sequence == nullptr || !trains_) continue;
    step = order_for_device(*sequence, step,
                            smaller_budget == nullptr ? nullptr : &(*smaller_budget)[i],
                            device_order, outcomes[i]);
  }
}

OrderedStep PolicyPasses::order_by(const SequencePolicy& sequence, const OrderedStep& step,
                                   const PolicyOutcome* smaller_budget, Bytes held_back,
                                   PolicyOutcome& outcome) const {
  OrderedStep ordered;
  ordered.order = run_pass(times_, sequence.name(), [&] {
    PolicyContext context = context_for(step);
    context.smaller_budget = smaller_budget;
    context.held_back = held_back;
    return sequence.order(context, outcome);
  });
  outcome.recomputed_operators = policy_passes_detail::repeats_in_last_step(ordered.order) -
                                 policy_passes_detail::repeats_in_last_step(step.order);
  ordered.live = analyze_liveness(graph_, ordered.order);
  check_liveness(graph_, ordered.order, ordered.live);
  return ordered;
}

// An order that fills the device with live bytes may not fit, since allocators fragment. Then more
// and more is held back, until the policy finds no plan for what is left; where nothing helps, the
// order for the whole device stays.
PolicyPasses::Tried PolicyPasses::tried(const SequencePolicy& sequence, const OrderedStep& step,
                                        const PolicyOutcome* smaller_budget,
                                        const PolicyOutcome& before) const {
  const auto with_held_back = [&](Bytes held_back, const PolicyOutcome* smaller) {
    Tried order{.step = {}, .outcome = before, .how = {.held_back = held_back}};
    order.step = order_by(sequence, step, smaller, held_back, order.outcome);
    return order;
  };
  Tried whole = with_held_back(Bytes(0), smaller_budget);
  const ResidencyPlan nothing(whole.step.live);
  const std::unique_ptr<const TrialRun> trial = trials_(whole.step);
  whole.fits = trial->fits(nothing);
  if (whole.fits) return whole;
  const Bytes usable = device_.hbm.capacity - process_overhead(spec_);
  const Bytes over = trial->run(nothing).peak_reserved - usable;
  for (const int halves : {1, 2, 4, 8}) {
    const Bytes held_back = over * halves / 2;
    if (held_back <= Bytes(0) || held_back >= usable) break;
    Tried less = with_held_back(held_back, nullptr);
    less.fits = trials_(less.step)->fits(ResidencyPlan(less.step.live));
    if (less.fits) return less;
    if (less.outcome.plan && !has_schedule(less.outcome.plan->status)) break;
  }
  return whole;
}

// Another policy stands in if this one's order for the whole device does not fit: of those whose
// orders are open to this one and fit, the one whose step is fastest.
OrderedStep PolicyPasses::order_for_device(const SequencePolicy& sequence, const OrderedStep& step,
                                           const PolicyOutcome* smaller_budget,
                                           std::optional<DeviceOrder>& device_order,
                                           PolicyOutcome& outcome) const {
  // Other policies may make room, and are not part of the trial run.
  const bool alone =
      std::none_of(spec_.policies.begin(), spec_.policies.end(), [&](const AnyPolicy& policy) {
        return !rewrites_model(policy) && &policy_of(policy) != &sequence;
      });
  if (device_order || !alone || !sequence.fills_device()) {
    const DeviceOrder how = device_order.value_or(DeviceOrder{});
    if (!how.stand_in) return order_by(sequence, step, smaller_budget, how.held_back, outcome);
    return order_by(*sequence.stand_ins().at(*how.stand_in), step, nullptr, how.held_back, outcome);
  }
  Tried best = tried(sequence, step, smaller_budget, outcome);
  const auto time_of = [&](const Tried& order) {
    return trials_(order.step)->run(ResidencyPlan(order.step.live)).step;
  };
  if (!best.fits || best.how.held_back > Bytes(0)) {
    Duration fastest = best.fits ? time_of(best) : Duration::max();
    const std::vector<std::unique_ptr<SequencePolicy>> others = sequence.stand_ins();
    for (std::size_t i = 0; i < others.size(); ++i) {
      Tried other = tried(*others[i], step, nullptr, outcome);
      if (!other.fits) continue;
      const Duration time = time_of(other);
      if (time >= fastest) continue;
      fastest = time;
      best = std::move(other);
      best.how.stand_in = i;
    }
  }
  device_order = best.how;
  outcome = std::move(best.outcome);
  return std::move(best.step);
}

// Calls the policies one after another: ask(index, context).
template <class Ask>
void PolicyPasses::ask_each(const OrderedStep& step, ResidencyPlan& plan, Ask ask) const {
  const std::unique_ptr<const TrialRun> trial = trials_(step);
  PolicyContext context = context_for(step);
  context.trial = trial.get();
  for (std::size_t i = 0; i < spec_.policies.size(); ++i) {
    plan.begin_policy(i, spec_.policy_names[i]);
    ask(i, context);
  }
}

PolicyPasses::DecidedBy PolicyPasses::plan_recomputation(const OrderedStep& step,
                                                         ResidencyPlan& plan) const {
  DecidedBy decided_by(plan.decisions().size());
  if (!trains_) return decided_by;
  const auto note = [&](std::size_t i) {
    for (GapId gap : ids_of(decided_by)) {
      if (plan.decided(gap) && !decided_by[gap]) decided_by[gap] = i;
    }
  };
  // Parameters that rewrites gather again come ahead of recomputation that reads them, whatever the
  // order in which the policies are listed.
  ask_each(step, plan, [&](std::size_t i, const PolicyContext& context) {
    const auto* rewrite = policy_passes_detail::as_kind<TrainingRewrite>(spec_.policies[i]);
    if (rewrite == nullptr) return;
    rewrite->plan_recompute(context, plan);
    note(i);
  });
  ask_each(step, plan, [&](std::size_t i, const PolicyContext& context) {
    const auto* residency = policy_passes_detail::as_kind<ResidencyPolicy>(spec_.policies[i]);
    if (residency == nullptr) return;
    residency->plan_recompute(context, plan);
    note(i);
  });
  return decided_by;
}

void PolicyPasses::plan_movement(PlannedStep& planned) const {
  ask_each(planned.step, planned.movement, [&](std::size_t i, const PolicyContext& context) {
    const AnyPolicy& policy = spec_.policies[i];
    const auto* residency = policy_passes_detail::as_kind<ResidencyPolicy>(policy);
    if (residency != nullptr && trains_) residency->plan_movement(context, planned.movement);
    if (const auto* p = policy_passes_detail::as_kind<TrainingRewrite>(policy))
      p->plan_movement(context, planned.movement);
  });
}

std::unique_ptr<PlannedStep> PolicyPasses::plan(OrderedStep step,
                                                std::vector<PolicyOutcome>& outcomes) const {
  auto before = std::make_unique<PlannedStep>(std::move(step));
  ResidencyPlan recomputation(before->step.live);
  const DecidedBy decided_by = run_pass(times_, "plan recomputation", [&] {
    return plan_recomputation(before->step, recomputation);
  });

  // Movement starts with the offloads that were decided together with recomputation.
  const PlanOnOrder planned{graph_, before->step.order, before->step.live, recomputation};
  std::unique_ptr<PlannedStep> after;
  std::vector<GapId> lost;
  if (recomputation.groups().empty()) {
    lost = carry_offloads(planned, before->step, before->movement);
  } else {
    after = insert_and_carry(planned, times_, &lost);
  }
  for (GapId gap : lost) {
    PolicyOutcome& outcome = recomputation.outcomes()[decided_by[gap].value()];
    ++outcome.refused;
    --outcome.decided;
    const Gap& kept = before->step.live.gaps[gap];
    const ProgramOrder& order = before->step.order;
    if (order.at[kept.from].step + 1 == order.steps)
      outcome.offloaded -= graph_.storages[kept.storage].bytes;
  }
  policy_passes_detail::add_outcomes(recomputation, outcomes);

  std::unique_ptr<PlannedStep>& result = after == nullptr ? before : after;
  run_pass(times_, "plan movement", [&] { plan_movement(*result); });
  policy_passes_detail::add_outcomes(result->movement, outcomes);
  return std::move(result);
}

}  // namespace tidemark
