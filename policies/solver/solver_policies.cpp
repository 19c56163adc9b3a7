#include "policies/solver/solver_policies.hpp"

#include <array>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "graph/core/errors.hpp"
#include "policies/remat/keep_set.hpp"
#include "policies/remat/parts.hpp"
#include "policies/solver/block_chain.hpp"
#include "policies/solver/chain.hpp"
#include "policies/solver/checkmate_lp.hpp"
#include "policies/solver/chen.hpp"
#include "policies/solver/choose_schedule.hpp"
#include "policies/solver/min_cut.hpp"
#include "policies/solver/optimal.hpp"

namespace tidemark {
namespace solver_policies_detail {
namespace {

PlanFunction decode_keep_all(const Decoder& /*d*/) {
  return chosen_from("keep_all", [](const RematProblem& problem) {
    return std::vector<Schedule>{keep_schedule(problem, std::vector<bool>(problem.size(), true))};
  });
}

// The most stages of a chain without choices inside them; with choices each costs more.
constexpr std::size_t kRotorStages = 48;
constexpr std::size_t kRockmateStages = 32;

// Considers plans by stages: those of the recurrence with each of `options`, and the simpler ones
// among which it looks, since it only estimates memory. Throws UserError where the graph is no
// chain of stages.
PlanResult plan_stages(const RematProblem& problem, const PlanRequest& request,
                       std::string_view policy, std::span<const BlockChainOptions> options) {
  const std::vector<Stage> stages = stages_of(problem, options.back().stages);
  if (stages.size() < 2) {
    throw UserError(
        fmt::format("{} is for chains of stages, and no node of this graph has everything later "
                    "read nothing but "
                    "itself of what comes before. Choose another policy",
                    policy));
  }
  const auto begin = ScheduleChoice::Clock::now();
  ScheduleChoice choice(problem, request, policy, begin);
  if (footprint_fault(problem, request.budget.count)) return choice.result();
  choice.give_until(0.2);
  for (Schedule& schedule : first_stages_schedules(problem, stages))
    choice.consider(std::move(schedule));
  for (const std::string_view over : {"articulation", "layers"})
    consider_chen(problem, over, choice);
  choice.use_room(0.3);
  double share = 0.3;
  for (BlockChainOptions one : options) {
    share += 0.5 / static_cast<double>(options.size());
    // The best of each have their room used: the cheapest of all need not be the best with it.
    ScheduleChoice found(problem, request, policy, begin);
    found.give_until(share - 0.05);
    one.deadline = found.candidates_end();
    for (Schedule& schedule : block_chain_schedules(problem, request.budget.count, one))
      found.consider(std::move(schedule));
    found.use_room(share);
    choice.give_until(1);
    if (const std::optional<Solution> best = found.cheapest()) choice.consider(best->schedule);
  }
  return choice.result();
}

PlanFunction decode_rotor(const Decoder& /*d*/) {
  return [](const RematProblem& problem, const PlanRequest& request) {
    if (!is_chain(problem) || forward_count(problem) > kLongestRotor) {
      const BlockChainOptions whole{.stages = kRotorStages, .plans = 0, .seed = request.seed};
      return plan_stages(problem, request, "rotor", {&whole, 1});
    }
    ScheduleChoice choice(problem, request, "rotor");
    if (auto found = rotor_schedule(problem, request.budget.count, choice.candidates_end()))
      choice.consider(std::move(found->schedule));
    return choice.result();
  };
}

PlanFunction decode_rockmate(const Decoder& d) {
  const int plans = d.optional<int>("plans", 8, between(1, 100));
  return [plans](const RematProblem& problem, const PlanRequest& request) {
    const std::array<BlockChainOptions, 2> options{
        {{.stages = kRockmateStages, .plans = plans, .seed = request.seed},
         {.stages = kRotorStages, .plans = 0, .seed = request.seed}}};
    return plan_stages(problem, request, "rockmate", options);
  };
}

PlanFunction decode_min_cut(const Decoder& /*d*/) {
  return [](const RematProblem& problem, const PlanRequest& request) {
    ScheduleChoice choice(problem, request, "min_cut");
    if (request.saved_share) {
      choice.consider(saved_share_schedule(problem, *request.saved_share));
    } else if (!footprint_fault(problem, request.budget.count)) {
      choice.give_until(0.4);
      consider_min_cuts(problem, choice);
      choice.give_until(0.7);
      // Values that the cheapest cuts recompute are recomputed together, early in backward;
      // checkpoints part it. They are saved values, too.
      for (const std::string_view over : {"nodes", "articulation", "layers"})
        consider_chen(problem, over, choice);
      choice.use_room();
    }
    return choice.result();
  };
}

// Wraps a solver so that parts are recomputed in its result.
PlanFunction with_parts_again(PlanResult (*solve)(const RematProblem&, const PlanRequest&)) {
  return [solve](const RematProblem& problem, const PlanRequest& request) {
    PlanResult result = solve(problem, request);
    if (result.solution) {
      result.solution = evaluated(
          problem, with_parts_again(problem, result.solution->schedule, request.schedule_class));
    }
    return result;
  };
}

PlanFunction decode_checkmate_lp(const Decoder& /*d*/) {
  return with_parts_again(plan_checkmate_lp);
}

PlanFunction decode_optimal(const Decoder& /*d*/) {
  return with_parts_again(plan_optimal);
}

constexpr std::array<PlanPolicy, kSolverPolicyCount> kSolverPolicies{{
    {"keep_all", "computes every node once", "no recomputation", decode_keep_all},
    {"chen_sqrt",
     "keeps every floor(sqrt(n))-th forward node, or articulation point, and recomputes the rest",
     "Chen et al. 2016 (arXiv 1604.06174), section 4.1", decode_chen_sqrt},
    {"chen_greedy",
     "keeps a forward node, or articulation point, whenever the bytes since the last pass a "
     "threshold; tries up to 400 of them",
     "Chen et al. 2016 (arXiv 1604.06174), algorithm 3", decode_chen_greedy,
     SearchKeys{.time_limit = true}},
    {"rotor",
     "the cheapest memory-persistent schedule of a chain with fused stages; in a chain of blocks, "
     "what room whole blocks leave goes to single values",
     "Beaumont et al. 2019 (hal-02352969)", decode_rotor, SearchKeys{.time_limit = true}},
    {"rockmate",
     "rotor over blocks with `plans` ways to keep and recompute inside each distinct one",
     "Zhao et al. 2023 (arXiv 2307.01236)", decode_rockmate,
     SearchKeys{.time_limit = true, .seed = true}},
    {"checkmate_lp", "rounds the relaxation of Checkmate's integer program in two phases",
     "Jain et al. 2020 (arXiv 1910.02653), section 5", decode_checkmate_lp,
     SearchKeys{.time_limit = true, .seed = true}},
    {"min_cut",
     "saves what a minimum cut between forward and backward chooses, by bytes and cost, and more "
     "while there is room",
     "PyTorch, functorch/_src/partitioners.py", decode_min_cut, SearchKeys{.time_limit = true},
     true},
    {"optimal", "exact search on small graphs, neighbourhood search with proven bounds on large",
     "Tidemark; the classes are those of Checkmate and Moccasin", decode_optimal,
     SearchKeys{.iterations = true, .time_limit = true, .seed = true}, false, true},
}};

}  // namespace
}  // namespace solver_policies_detail

std::span<const PlanPolicy> solver_policies() {
  return solver_policies_detail::kSolverPolicies;
}

}  // namespace tidemark
