#include "policies/solver/plan_policy.hpp"

#include <algorithm>
#include <array>
#include <numeric>

#include <fmt/format.h>

#include "graph/core/errors.hpp"
#include "graph/core/units.hpp"
#include "policies/solver/block_chain.hpp"
#include "policies/solver/chain.hpp"
#include "policies/solver/checkmate_lp.hpp"
#include "policies/solver/keep_set.hpp"
#include "policies/solver/lower_bound.hpp"
#include "policies/solver/min_cut.hpp"
#include "policies/solver/operator_lists.hpp"
#include "policies/solver/parts.hpp"

namespace tidemark {
namespace {

constexpr Duration kLongestPlan = std::chrono::hours(24 * 365);

// A policy that tries candidates from which the budget chooses.
template <class Candidates>
PlanFunction chosen_from(std::string_view policy, Candidates candidates) {
  return [policy, candidates](const RematProblem& problem, const PlanRequest& request) {
    return choose_schedule(problem, request, policy, candidates(problem));
  };
}

PlanFunction decode_keep_all(const Decoder& /*d*/) {
  return chosen_from("keep_all", [](const RematProblem& problem) {
    return std::vector<Schedule>{keep_schedule(problem, std::vector<bool>(problem.size(), true))};
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

// Which nodes a policy of Chen's may keep; `any`: each kind in turn, and the budget chooses.
constexpr std::string_view kCandidates[] = {"any", "layers", "articulation", "nodes"};

std::vector<std::vector<NodeIndex>> candidates_of(const RematProblem& problem,
                                                  std::string_view over) {
  std::vector<std::vector<NodeIndex>> all;
  if (over == "nodes" || over == "any") all.push_back(forward_nodes(problem));
  if (over == "articulation" || over == "any") all.push_back(articulation_nodes(problem));
  if (over == "layers" || over == "any") {
    all.push_back(passed_on_outputs(problem));
    if (all.back().empty() && over == "layers") {
      throw UserError(
          "over: layers is for models with repeated blocks, and this has none; choose articulation "
          "or nodes");
    }
  }
  return all;
}

PlanFunction decode_chen_sqrt(const Decoder& d) {
  const std::string over = d.optional_word("over", kCandidates, "any");
  return chosen_from("chen_sqrt", [over](const RematProblem& problem) {
    std::vector<std::vector<NodeIndex>> all;
    for (const std::vector<NodeIndex>& candidates : candidates_of(problem, over))
      all.push_back(chen_sqrt_checkpoints(candidates));
    return schedules_of(problem, all);
  });
}

PlanFunction decode_chen_greedy(const Decoder& d) {
  const std::string over = d.optional_word("over", kCandidates, "any");
  return chosen_from("chen_greedy", [over](const RematProblem& problem) {
    std::vector<std::vector<NodeIndex>> all;
    for (const std::vector<NodeIndex>& candidates : candidates_of(problem, over)) {
      const auto swept = chen_greedy_checkpoints(problem, candidates);
      all.insert(all.end(), swept.begin(), swept.end());
    }
    return schedules_of(problem, all);
  });
}

PlanFunction decode_checkpoint_every(const Decoder& d) {
  constexpr std::string_view kOver[] = {"nodes", "articulation", "layers"};
  const auto period = d.optional<std::int64_t>("period", 1, at_least(1));
  const std::string over = d.optional_word("over", kOver, "nodes");
  return chosen_from("checkpoint_every", [period, over](const RematProblem& problem) {
    const std::vector<NodeIndex> candidates = candidates_of(problem, over).front();
    return std::vector<Schedule>{segment_schedule(problem, every(candidates, period))};
  });
}

PlanFunction decode_selective(const Decoder& d) {
  const bool saves = d.has("save");
  const bool recomputes = d.has("recompute");
  const std::vector<std::string> saved = d.list<std::string>("save");
  const std::vector<std::string> again = d.list<std::string>("recompute");
  if (saves && recomputes) d.fail("give one of save and recompute; the other is what is left");
  const std::vector<std::string>& operators = saves ? saved : again;
  return chosen_from("selective", [operators, saves](const RematProblem& problem) {
    if (operators.empty() && !saves) {
      throw UserError(
          "selective chooses nothing; give the operators whose results are saved, such as save: "
          "[linear, attention], or those that run again, such as recompute: [gelu, dropout]");
    }
    return std::vector<Schedule>{selective_schedule(problem, operators, saves)};
  });
}

PlanFunction decode_megatron_selective(const Decoder& /*d*/) {
  return chosen_from("megatron_selective", [](const RematProblem& problem) {
    return std::vector<Schedule>{attention_schedule(problem)};
  });
}

PlanFunction decode_revolve(const Decoder& d) {
  // 0: as many as fit.
  const int checkpoints = d.optional<int>("checkpoints", 0, at_least(0));
  return chosen_from("revolve", [checkpoints](const RematProblem& problem) {
    return revolve_schedules(problem, checkpoints);
  });
}

// Throws UserError where the graph is no chain of stages.
std::vector<Schedule> chain_of_blocks(const RematProblem& problem, const PlanRequest& request,
                                      std::string_view policy, int plans) {
  if (stages_of(problem, 3).size() < 2) {
    throw UserError(
        fmt::format("{} is for chains of stages, and no node of this graph has everything later "
                    "read nothing but "
                    "itself of what comes before. Choose another policy",
                    policy));
  }
  return block_chain_schedules(problem, request.budget, {.plans = plans, .seed = request.seed});
}

PlanFunction decode_rotor(const Decoder& /*d*/) {
  return [](const RematProblem& problem, const PlanRequest& request) {
    std::vector<Schedule> candidates;
    if (!is_chain(problem)) {
      candidates = chain_of_blocks(problem, request, "rotor", 0);
    } else if (auto found = rotor_schedule(problem, request.budget)) {
      candidates.push_back(std::move(found->schedule));
    }
    return choose_schedule(problem, request, "rotor", std::move(candidates));
  };
}

PlanFunction decode_rockmate(const Decoder& d) {
  const int plans = d.optional<int>("plans", 8, between(1, 100));
  return [plans](const RematProblem& problem, const PlanRequest& request) {
    return choose_schedule(problem, request, "rockmate",
                           chain_of_blocks(problem, request, "rockmate", plans));
  };
}

PlanFunction decode_min_cut(const Decoder& /*d*/) {
  return [](const RematProblem& problem, const PlanRequest& request) {
    std::vector<Schedule> candidates;
    if (request.saved_share) {
      candidates.push_back(saved_share_schedule(problem, *request.saved_share));
    } else {
      candidates = min_cut_schedules(problem);
    }
    return choose_schedule(problem, request, "min_cut", std::move(candidates));
  };
}

// What a solver returns, with parts made again.
PlanFunction with_parts_again(PlanResult (*solve)(const RematProblem&, const PlanRequest&)) {
  return [solve](const RematProblem& problem, const PlanRequest& request) {
    PlanResult result = solve(problem, request);
    if (result.solution) {
      result.solution = replayed(
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

constexpr std::array<PlanPolicy, 12> kPolicies{{
    {"keep_all", "computes every node once", "no recomputation", decode_keep_all},
    {"chen_sqrt",
     "keeps every floor(sqrt(n))-th forward node, or articulation point, and recomputes the rest",
     "Chen et al. 2016 (arXiv 1604.06174), section 4.1", decode_chen_sqrt},
    {"chen_greedy",
     "keeps a forward node, or articulation point, whenever the bytes since the last pass a "
     "threshold; tries up to 400 of them",
     "Chen et al. 2016 (arXiv 1604.06174), algorithm 3", decode_chen_greedy},
    {"checkpoint_every",
     "keeps every `period`-th forward node, articulation point or layer's output (`over`) and "
     "recomputes whole segments between; over layers, period 1, it is Megatron's full recompute",
     "Chen et al. 2016; torch.utils.checkpoint", decode_checkpoint_every},
    {"selective",
     "computes again all but the results of the operators in `save`, or only those in `recompute`",
     "torch.utils.checkpoint, create_selective_checkpoint_contexts", decode_selective},
    {"megatron_selective",
     "computes the core of attention again, from the scores to the product with the values",
     "Korthikanti et al. 2022 (arXiv 2205.05198), section 5", decode_megatron_selective},
    {"revolve", "reverses a chain with the fewest repeated forwards for `checkpoints` kept nodes",
     "Griewank and Walther 2000, algorithm 799", decode_revolve},
    {"rotor", "the cheapest memory-persistent schedule of a chain with fused stages",
     "Beaumont et al. 2019 (hal-02352969)", decode_rotor},
    {"rockmate",
     "rotor over blocks with `plans` ways to keep and recompute inside each distinct one",
     "Zhao et al. 2023 (arXiv 2307.01236)", decode_rockmate, SearchKeys{.seed = true}},
    {"checkmate_lp", "rounds the relaxation of Checkmate's integer program in two phases",
     "Jain et al. 2020 (arXiv 1910.02653), section 5", decode_checkmate_lp,
     SearchKeys{.time_limit = true, .seed = true}},
    {"min_cut", "saves what a minimum cut between forward and backward chooses, by bytes and cost",
     "PyTorch, functorch/_src/partitioners.py", decode_min_cut, SearchKeys{}, true},
    {"optimal", "exact search on small graphs, neighbourhood search with proven bounds on large",
     "Tidemark; the classes are those of Checkmate and Moccasin", decode_optimal,
     SearchKeys{.iterations = true, .time_limit = true, .seed = true}},
}};

// `takes`; throws UserError where the key is given all the same.
bool has_effect(const Decoder& d, const PlanPolicy& policy, std::string_view key, bool takes) {
  if (takes || !d.has(key)) return takes;
  std::vector<std::string_view> others;
  for (const PlanPolicy& other : kPolicies) {
    const SearchKeys& keys = other.search;
    if (key == "iterations" ? keys.iterations : key == "seed" ? keys.seed : keys.time_limit)
      others.push_back(other.name);
  }
  d.fail_at(key, fmt::format("has no effect on {}; leave it out (it is for {})", policy.name,
                             fmt::join(others, ", ")));
}

}  // namespace

std::span<const PlanPolicy> plan_policies() {
  return kPolicies;
}

PlanRequest decode_request(const Decoder& d, const PlanPolicy& policy, PlanRequest request) {
  const Value* budget = d.value().find("budget");
  // A bare number is bytes, of which nobody gives one or less.
  const bool share = policy.shares && budget != nullptr && budget->is_scalar() &&
                     budget->scalar.find_first_not_of("0123456789.") == std::string::npos &&
                     (budget->scalar.find('.') != std::string::npos || budget->scalar.size() == 1);
  if (share) {
    request.saved_share = d.maybe<double>("budget", between(0, 1));
  } else if (const auto bytes = d.maybe<Bytes>("budget")) {
    request.budget = bytes->count;
  }
  std::vector<std::string_view> names;
  for (const ScheduleClass schedule_class : kScheduleClasses)
    names.push_back(name_of(schedule_class));
  const std::string word = d.optional_word("class", names, name_of(request.schedule_class));
  for (const ScheduleClass schedule_class : kScheduleClasses) {
    if (word == name_of(schedule_class)) request.schedule_class = schedule_class;
  }
  const SearchKeys& takes = policy.search;
  if (has_effect(d, policy, "iterations", takes.iterations)) {
    request.iterations = d.optional<std::int64_t>("iterations", request.iterations, at_least(0));
  }
  if (has_effect(d, policy, "time_limit", takes.time_limit)) {
    const Duration limit = d.optional<Duration>("time_limit", request.time_limit);
    // Iterations alone end the search where it ends everywhere.
    const bool endless = request.iterations > 0 && !d.has("time_limit");
    request.time_limit = endless ? kLongestPlan : std::min(limit, kLongestPlan);
  }
  if (has_effect(d, policy, "seed", takes.seed)) {
    request.seed = static_cast<std::uint64_t>(
        d.optional<std::int64_t>("seed", static_cast<std::int64_t>(request.seed), at_least(0)));
  }
  return request;
}

std::vector<std::vector<PlanResult>> plan_grid(const RematProblem& problem,
                                               std::span<const PlanFunction> policies,
                                               std::span<const std::int64_t> budgets,
                                               const PlanRequest& request) {
  std::vector<std::size_t> ascending(budgets.size());
  std::iota(ascending.begin(), ascending.end(), std::size_t{0});
  std::stable_sort(ascending.begin(), ascending.end(),
                   [&](std::size_t a, std::size_t b) { return budgets[a] < budgets[b]; });
  const auto has_plan = [](const PlanResult& result) {
    return result.status == PlanStatus::kOptimal || result.status == PlanStatus::kFeasible;
  };
  std::vector<std::vector<PlanResult>> grid;
  for (const PlanFunction& plan : policies) {
    std::vector<PlanResult>& row = grid.emplace_back(budgets.size());
    PlanRequest next = request;
    for (const std::size_t k : ascending) {
      next.budget = budgets[k];
      row[k] = plan(problem, next);
      if (has_plan(row[k])) next.known = &row[k].solution->schedule;
    }
    // What holds with more memory holds with less.
    std::int64_t proven = 0;
    for (auto k = ascending.rbegin(); k != ascending.rend(); ++k) {
      PlanResult& result = row[*k];
      if (!result.lower_bound) continue;
      proven = std::max(proven, *result.lower_bound);
      result.lower_bound = proven;
      if (has_plan(result) && result.solution->replay.cost <= proven) {
        result.status = PlanStatus::kOptimal;
      }
    }
  }
  return grid;
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
  if (request.known != nullptr) candidates.push_back(*request.known);
  std::optional<Solution> best;
  const auto fits = [&](const Solution& s) { return s.replay.peak <= request.budget; };
  for (Schedule& schedule : candidates) {
    schedule = with_parts_again(problem, std::move(schedule), request.schedule_class);
    if (class_fault(problem, schedule, request.schedule_class)) continue;
    Solution next = replayed(problem, std::move(schedule));
    const bool better = !best || (fits(next) != fits(*best) ? fits(next)
                                  : fits(next)              ? next.replay.cost < best->replay.cost
                                                            : next.replay.peak < best->replay.peak);
    if (better) best = std::move(next);
  }
  PlanResult result;
  result.lower_bound = cut_bound(problem, request.budget, request.schedule_class);
  if (*result.lower_bound >= kNoSchedule) {
    return {.status = PlanStatus::kInfeasible,
            .solution = std::move(best),
            .reason =
                "what may run only once and is read later takes more than the budget beside "
                "what is computed"};
  }
  if (best && fits(*best)) {
    result.status =
        best->replay.cost <= *result.lower_bound ? PlanStatus::kOptimal : PlanStatus::kFeasible;
  } else if (best) {
    result.reason = fmt::format("{} needs at least {} ({} bytes) here; another policy may fit",
                                policy, format_bytes(Bytes(best->replay.peak)), best->replay.peak);
  } else {
    result.reason = fmt::format("{} has no schedule of class {} that fits; another policy may",
                                policy, name_of(request.schedule_class));
  }
  result.solution = std::move(best);
  return result;
}

}  // namespace tidemark
