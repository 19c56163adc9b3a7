#include "policies/sequence/planned.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "graph/core/errors.hpp"
#include "policies/residency/memory_curve.hpp"
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
  std::vector<CostNodeId> schedule;
};

class Planned final : public SequencePolicy {
 public:
  Planned(const PlanPolicy& policy, PlanFunction plan, const PlanRequest& request,
          bool budget_given)
      : policy_(policy), plan_(std::move(plan)), request_(request), budget_given_(budget_given) {}
  [[nodiscard]] std::string_view name() const override { return policy_.name; }

  [[nodiscard]] ProgramOrder order(const PolicyContext& context,
                                   PolicyOutcome& outcome) const override {
    std::vector<Plan> plans;
    const std::vector<MicroBatch> micro_batches = find_micro_batches(context, plans);
    std::vector<Schedule> schedules;
    for (std::size_t i = 0; i < plans.size(); ++i) {
      const PlanFigures figures = solve(context, plans, i);
      // Of several kinds of micro-batch the one that needs most memory counts.
      if (!outcome.plan || figures.peak > outcome.plan->peak) outcome.plan = figures;
      schedules.push_back(schedule_of(plans[i]));
    }
    if (outcome.plan) outcome.plan->schedules = std::move(schedules);
    ProgramOrder result;
    result.steps = context.order.steps;
    result.micro_batches = context.order.micro_batches;
    auto next = micro_batches.begin();
    for (Position p = Position(0U); p.index() < context.order.at.size();) {
      if (next == micro_batches.end() || p < next->begin) {
        result.at.push_back(context.order.at[p]);
        ++p.value;
        continue;
      }
      lay_out(context.order.at[next->begin], plans[next->plan], result);
      p = next->end;
      ++next;
    }
    return result;
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
        plans.push_back({.operators = operators, .costs = {}, .schedule = {}});
    }
    return found;
  }

  [[nodiscard]] static Schedule schedule_of(const Plan& plan) {
    Schedule schedule;
    for (const CostNodeId node : plan.schedule)
      schedule.push_back(node.value);
    return schedule;
  }

  // The schedule of the same micro-batch for a smaller budget, if there is one that fits.
  [[nodiscard]] static const Schedule* known_schedule(const PolicyContext& context,
                                                      std::size_t index) {
    const PolicyOutcome* smaller = context.smaller_budget;
    if (smaller == nullptr || !smaller->plan || !smaller->plan->infeasible.empty()) return nullptr;
    const auto& schedules = smaller->plan->schedules;
    return index < schedules.size() ? &schedules[index] : nullptr;
  }

  [[nodiscard]] PlanFigures solve(const PolicyContext& context, std::vector<Plan>& plans,
                                  std::size_t index) const {
    Plan& plan = plans[index];
    plan.costs = step_costs(context.graph, plan.operators, context.durations,
                            request_.schedule_class == ScheduleClass::kUnrestricted,
                            context.device.framework);
    const RematProblem problem = remat_problem(plan.costs.graph);
    PlanRequest request = request_;
    if (!budget_given_) request.budget = device_budget(context).count;
    request.time_limit /= static_cast<std::int64_t>(plans.size());
    request.known = known_schedule(context, index);
    const PlanResult result = named(problem, request);
    PlanFigures figures{.status = name_of(result.status),
                        .schedule_class = name_of(request.schedule_class),
                        .budget = request.budget,
                        .base_cost = problem.base_cost,
                        .lower_bound = result.lower_bound};
    Schedule schedule;
    if (result.solution) {
      schedule = result.solution->schedule;
    } else {
      for (NodeIndex node = 0; node < problem.size(); ++node)
        schedule.push_back(node);
    }
    const Replay replayed = replay(problem, schedule);
    figures.cost = replayed.cost;
    figures.peak = replayed.peak;
    if (budget_given_ && replayed.peak > request.budget) {
      figures.infeasible = result.reason;
      // With the operator's name: a scenario shows no numbers of nodes.
      const NodeIndex largest = problem.largest_footprint();
      if (const Bytes footprint(problem.footprint(largest)); footprint.count > request.budget) {
        figures.status = name_of(PlanStatus::kInfeasible);
        figures.infeasible = fmt::format(
            "{} alone takes {}, {} bytes (what is there all the time, its inputs, output and "
            "workspace)",
            plan.costs.graph.nodes[CostNodeId(largest)].name, format_bytes(footprint),
            footprint.count);
      }
    }
    for (const NodeIndex node : schedule)
      plan.schedule.push_back(CostNodeId(node));
    return figures;
  }

  // What a graph is not fit for is said of this policy.
  [[nodiscard]] PlanResult named(const RematProblem& problem, const PlanRequest& request) const {
    try {
      return plan_(problem, request);
    } catch (const UserError& error) {
      throw UserError({}, fmt::format("policies.{}", policy_.name), error.what());
    }
  }

  // Whether every operator runs once, in the order of the cost graph.
  [[nodiscard]] static bool changes_nothing(const Plan& plan) {
    if (plan.schedule.size() != plan.costs.operators.size()) return false;
    for (std::size_t k = 0; k < plan.schedule.size(); ++k) {
      if (plan.schedule[k].index() != k) return false;
    }
    return true;
  }

  // Without a budget, where nothing is computed again, the program stays as it is. The plan's peak
  // is that of the cost graph's order, which has operators in place right behind what makes their
  // storage: a budget needs that order.
  void lay_out(Occurrence occurrence, const Plan& plan, ProgramOrder& into) const {
    if (!budget_given_ && changes_nothing(plan)) {
      for (const OperatorId op : plan.operators) {
        occurrence.op = op;
        into.at.push_back(occurrence);
      }
      return;
    }
    IdVector<CostNodeId, char> computed(plan.costs.operators.size(), 0);
    for (const CostNodeId node : plan.schedule) {
      occurrence.recompute = std::exchange(computed[node], 1) != 0;
      for (const OperatorId op : plan.costs.operators[node]) {
        occurrence.op = op;
        into.at.push_back(occurrence);
      }
    }
  }

  const PlanPolicy& policy_;
  PlanFunction plan_;
  PlanRequest request_;
  bool budget_given_;
};

AnyPolicy decode_planned(const PlanPolicy& policy, const Decoder& d) {
  PlanFunction plan = policy.decode(d);
  const PlanRequest request = decode_request(d, policy, {});
  const bool budget_given = d.has("budget") && !request.saved_share;
  d.finish();
  return std::make_unique<Planned>(policy, std::move(plan), request, budget_given);
}

constexpr std::size_t kEntries = 10;

template <std::size_t... I>
std::array<PolicyEntry, sizeof...(I)> entries_of(std::index_sequence<I...> /*all*/) {
  return {PolicyEntry{.name = plan_policies()[I].name,
                      .seam = "sequence",
                      .summary = plan_policies()[I].summary,
                      .source = plan_policies()[I].source,
                      .decode = [](const Decoder& d) -> AnyPolicy {
                        return decode_planned(plan_policies()[I], d);
                      }}...};
}

}  // namespace

std::span<const PolicyEntry> planned_entries() {
  static const std::array<PolicyEntry, kEntries> kAll =
      entries_of(std::make_index_sequence<kEntries>());
  return kAll;
}

}  // namespace tidemark
