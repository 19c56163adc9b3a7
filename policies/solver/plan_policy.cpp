#include "policies/solver/plan_policy.hpp"

#include <array>

#include <fmt/format.h>

#include "policies/solver/chain.hpp"
#include "policies/solver/checkmate_lp.hpp"
#include "policies/solver/keep_set.hpp"
#include "policies/solver/lower_bound.hpp"
#include "policies/solver/min_cut.hpp"

namespace tidemark {
namespace {

// A policy that tries candidates from which the budget chooses.
template <class Candidates>
PlanFunction chosen_from(std::string_view policy, Candidates candidates) {
  return [policy, candidates](const RematProblem& problem, const PlanRequest& request) {
    return choose_schedule(problem, request, policy, candidates(problem));
  };
}

PlanFunction decode_keep_all(const Decoder& d) {
  d.finish();
  return chosen_from("keep_all", [](const RematProblem& problem) {
    return std::vector<Schedule>{keep_schedule(problem, std::vector<bool>(problem.size(), true))};
  });
}

PlanFunction decode_checkpoint_every(const Decoder& d) {
  const auto period = d.optional<std::int64_t>("period", 1, at_least(1));
  d.finish();
  return chosen_from("checkpoint_every", [period](const RematProblem& problem) {
    return std::vector<Schedule>{segment_schedule(problem, period)};
  });
}

std::vector<Schedule> schedules_of(const RematProblem& problem,
                                   const std::vector<std::vector<NodeIndex>>& checkpoints) {
  std::vector<Schedule> schedules;
  for (const std::vector<NodeIndex>& kept : checkpoints) {
    std::vector<bool> keep(problem.size());
    for (const NodeIndex node : kept)
      keep[node] = true;
    schedules.push_back(keep_schedule(problem, keep));
  }
  return schedules;
}

PlanFunction decode_chen_sqrt(const Decoder& d) {
  d.finish();
  return chosen_from("chen_sqrt", [](const RematProblem& problem) {
    return schedules_of(problem, {chen_sqrt_checkpoints(forward_nodes(problem)),
                                  chen_sqrt_checkpoints(articulation_nodes(problem))});
  });
}

PlanFunction decode_chen_greedy(const Decoder& d) {
  d.finish();
  return chosen_from("chen_greedy", [](const RematProblem& problem) {
    std::vector<std::vector<NodeIndex>> all =
        chen_greedy_checkpoints(problem, forward_nodes(problem));
    const auto articulations = chen_greedy_checkpoints(problem, articulation_nodes(problem));
    all.insert(all.end(), articulations.begin(), articulations.end());
    return schedules_of(problem, all);
  });
}

PlanFunction decode_revolve(const Decoder& d) {
  // 0: as many as fit.
  const int checkpoints = d.optional<int>("checkpoints", 0, at_least(0));
  d.finish();
  return chosen_from("revolve", [checkpoints](const RematProblem& problem) {
    return revolve_schedules(problem, checkpoints);
  });
}

PlanFunction decode_rotor(const Decoder& d) {
  d.finish();
  return [](const RematProblem& problem, const PlanRequest& request) {
    std::vector<Schedule> candidates;
    if (auto found = rotor_schedule(problem, request.budget)) {
      candidates.push_back(std::move(found->schedule));
    }
    return choose_schedule(problem, request, "rotor", std::move(candidates));
  };
}

PlanFunction decode_min_cut(const Decoder& d) {
  d.finish();
  return chosen_from("min_cut",
                     [](const RematProblem& problem) { return min_cut_schedules(problem); });
}

PlanFunction decode_checkmate_lp(const Decoder& d) {
  d.finish();
  return [](const RematProblem& problem, const PlanRequest& request) {
    return plan_checkmate_lp(problem, request);
  };
}

PlanFunction decode_optimal(const Decoder& d) {
  d.finish();
  return plan_optimal;
}

constexpr std::array<PlanPolicy, 9> kPolicies{{
    {"keep_all", "computes every node once", "no recomputation", decode_keep_all},
    {"chen_sqrt",
     "keeps every floor(sqrt(n))-th forward node, or articulation point, and recomputes the rest",
     "Chen et al. 2016 (arXiv 1604.06174), section 4.1", decode_chen_sqrt},
    {"chen_greedy",
     "keeps a forward node, or articulation point, whenever the bytes since the last pass a "
     "threshold; tries all thresholds",
     "Chen et al. 2016 (arXiv 1604.06174), algorithm 3", decode_chen_greedy},
    {"checkpoint_every",
     "keeps every `period`-th forward node and recomputes whole segments between",
     "Chen et al. 2016; torch.utils.checkpoint", decode_checkpoint_every},
    {"revolve", "reverses a chain with the fewest repeated forwards for `checkpoints` kept nodes",
     "Griewank and Walther 2000, algorithm 799", decode_revolve},
    {"rotor", "the cheapest memory-persistent schedule of a chain with fused stages",
     "Beaumont et al. 2019 (hal-02352969)", decode_rotor},
    {"checkmate_lp", "rounds the relaxation of Checkmate's integer program in two phases",
     "Jain et al. 2020 (arXiv 1910.02653), section 5", decode_checkmate_lp},
    {"min_cut", "saves what a minimum cut between forward and backward chooses, by bytes and cost",
     "PyTorch, functorch/_src/partitioners.py", decode_min_cut},
    {"optimal", "exact search on small graphs, neighbourhood search with proven bounds on large",
     "Tidemark; the classes are those of Checkmate and Moccasin", decode_optimal},
}};

}  // namespace

std::span<const PlanPolicy> plan_policies() {
  return kPolicies;
}

const PlanPolicy* find_plan_policy(std::string_view name) {
  for (const PlanPolicy& policy : kPolicies) {
    if (policy.name == name) return &policy;
  }
  return nullptr;
}

PlanResult choose_schedule(const RematProblem& problem, const PlanRequest& request,
                           std::string_view policy, std::vector<Schedule> candidates) {
  if (auto fault = footprint_fault(problem, request.budget)) {
    return {.status = PlanStatus::kInfeasible, .reason = *std::move(fault)};
  }
  std::optional<Solution> best;
  const auto fits = [&](const Solution& s) { return s.replay.peak <= request.budget; };
  for (Schedule& schedule : candidates) {
    if (class_fault(problem, schedule, request.schedule_class)) continue;
    Solution next = replayed(problem, std::move(schedule));
    const bool better = !best || (fits(next) != fits(*best) ? fits(next)
                                  : fits(next)              ? next.replay.cost < best->replay.cost
                                                            : next.replay.peak < best->replay.peak);
    if (better) best = std::move(next);
  }
  PlanResult result;
  result.lower_bound = cut_bound(problem, request.budget, request.schedule_class);
  if (best && fits(*best)) {
    result.status =
        best->replay.cost <= *result.lower_bound ? PlanStatus::kOptimal : PlanStatus::kFeasible;
  } else if (best) {
    result.reason = fmt::format("{} needs at least {} bytes here; another policy may fit", policy,
                                best->replay.peak);
  } else {
    result.reason = fmt::format("{} has no schedule of class {} that fits; another policy may",
                                policy, name_of(request.schedule_class));
  }
  result.solution = std::move(best);
  return result;
}

}  // namespace tidemark
