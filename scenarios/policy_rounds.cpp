#include "scenarios/policy_rounds.hpp"

#include <algorithm>
#include <memory>
#include <utility>
#include <variant>

#include "scenarios/replay.hpp"
#include "scenarios/run_compiled.hpp"

namespace tidemark {
namespace {

// The policy behind one of the seams, or null when it stands behind another.
template <class Seam>
const Seam* as(const AnyPolicy& policy) {
  const auto* found = std::get_if<std::unique_ptr<Seam>>(&policy);
  return found == nullptr ? nullptr : found->get();
}

std::int64_t repeats_in_last_step(const ProgramOrder& order) {
  return std::count_if(order.at.begin(), order.at.end(), [&](const Occurrence& o) {
    return o.recompute && o.step + 1 == order.steps;
  });
}

// Asks the policies one after another: question(index, what it may look at).
template <class Question>
void ask_each(const RoundContext& context, const OrderedStep& step, ResidencyPlan& plan,
              Question question) {
  const Scenario& scenario = context.scenario;
  const ScenarioReplay replay(scenario, context.graph, context.costs, step.order, step.live);
  PolicyContext asked = context.asked_about(step);
  asked.replay = &replay;
  for (std::size_t i = 0; i < scenario.policies.size(); ++i) {
    plan.begin_policy(i, scenario.policy_names[i]);
    question(i, asked);
  }
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

PolicyContext RoundContext::asked_about(const OrderedStep& step) const {
  return {.graph = graph,
          .order = step.order,
          .live = step.live,
          .durations = costs.device,
          .device = device,
          .beside_allocator = bytes_beside_allocator(scenario),
          .rewrites = rewrites};
}

void SequenceRound::run(OrderedStep& step) const {
  for (std::size_t i = 0; i < context_.scenario.policies.size(); ++i) {
    const auto* sequence = as<SequencePolicy>(context_.scenario.policies[i]);
    if (sequence != nullptr) run_one(i, *sequence, step);
  }
}

void SequenceRound::run_one(std::size_t policy, const SequencePolicy& sequence,
                            OrderedStep& step) const {
  const std::int64_t before = repeats_in_last_step(step.order);
  PolicyOutcome& outcome = context_.outcomes[policy];
  step.order = run_pass(context_.passes, sequence.name(), [&] {
    PolicyContext asked = context_.asked_about(step);
    if (smaller_budget_ != nullptr) asked.smaller_budget = &(*smaller_budget_)[policy];
    return sequence.order(asked, outcome);
  });
  outcome.recomputed_operators = repeats_in_last_step(step.order) - before;
  step.live = analyze_liveness(context_.graph, step.order);
}

RecomputationRound::RecomputationRound(const RoundContext& context, OrderedStep planned)
    : context_(context),
      planned_(std::move(planned)),
      plan_(planned_.live),
      decided_by_(plan_.decisions().size()) {}

void RecomputationRound::run() {
  run_pass(context_.passes, "plan recomputation", [&] { ask_policies(); });
  if (!plan_.groups().empty()) insert_repeats();
}

void RecomputationRound::ask_policies() {
  ask_each(context_, planned_, plan_, [&](std::size_t i, const PolicyContext& asked) {
    const auto* residency = as<ResidencyPolicy>(context_.scenario.policies[i]);
    if (residency == nullptr) return;
    residency->plan_recompute(asked, plan_);
    note_decisions_of(i);
  });
}

void RecomputationRound::note_decisions_of(std::size_t policy) {
  for (GapId gap : ids_of(decided_by_)) {
    if (plan_.decided(gap) && !decided_by_[gap]) decided_by_[gap] = policy;
  }
}

void RecomputationRound::insert_repeats() {
  OrderedStep& step = repeated_.emplace();
  step.order = run_pass(context_.passes, "insert recomputation", [&] {
    return insert_recomputation(context_.graph, planned_.order, planned_.live, plan_);
  });
  step.live = run_pass(context_.passes, "liveness again",
                       [&] { return analyze_liveness(context_.graph, step.order); });
}

ProgramOrder RecomputationRound::take_order() {
  return std::move(repeated_ ? repeated_->order : planned_.order);
}

void RecomputationRound::finish(ResidencyPlan& movement) {
  const std::vector<GapId> lost =
      carry_offloads({context_.graph, planned_.order, planned_.live, plan_},
                     {result().order, result().live}, movement);
  for (GapId gap : lost) {
    PolicyOutcome& outcome = plan_.outcomes()[decided_by_[gap].value()];
    ++outcome.refused;
    --outcome.decided;
  }
  add_outcomes(plan_, context_.outcomes);
}

void MovementRound::run() {
  run_pass(context_.passes, "plan movement", [&] {
    ask_each(context_, step_, plan_, [&](std::size_t i, const PolicyContext& asked) {
      const AnyPolicy& policy = context_.scenario.policies[i];
      if (const auto* p = as<ResidencyPolicy>(policy)) p->plan_movement(asked, plan_);
      if (const auto* p = as<TrainingRewrite>(policy)) p->plan_movement(asked, plan_);
    });
  });
  add_outcomes(plan_, context_.outcomes);
}

}  // namespace tidemark
