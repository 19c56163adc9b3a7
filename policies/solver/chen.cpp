#include "policies/solver/chen.hpp"

#include <string>
#include <unordered_set>

#include <boost/functional/hash.hpp>

#include "graph/core/errors.hpp"
#include "policies/remat/keep_set.hpp"

namespace tidemark {
namespace chen_detail {
namespace {

// `any`: each kind in turn, and the budget chooses.
constexpr std::string_view kCandidates[] = {"any", "layers", "articulation", "nodes"};

void consider_kept(const RematProblem& problem, const std::vector<NodeIndex>& kept,
                   ScheduleChoice& choice) {
  std::vector<bool> keep(problem.size());
  for (const NodeIndex node : kept)
    keep[node] = true;
  choice.consider(keep_schedule(problem, keep));
}

void consider_greedy(const RematProblem& problem, const std::vector<NodeIndex>& candidates,
                     ScheduleChoice& choice) {
  std::unordered_set<std::size_t> considered;  // different thresholds mostly choose alike
  for (const std::int64_t threshold : chen_greedy_thresholds(problem)) {
    if (choice.late()) return;
    const std::vector<NodeIndex> kept = chen_greedy_checkpoints(problem, candidates, threshold);
    if (considered.insert(boost::hash_range(kept.begin(), kept.end())).second)
      consider_kept(problem, kept, choice);
  }
}

}  // namespace
}  // namespace chen_detail

std::vector<std::vector<NodeIndex>> checkpoint_candidates(const RematProblem& problem,
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

void consider_chen(const RematProblem& problem, std::string_view over, ScheduleChoice& choice) {
  const std::vector<NodeIndex> candidates = over == "layers"         ? passed_on_outputs(problem)
                                            : over == "articulation" ? articulation_nodes(problem)
                                                                     : forward_nodes(problem);
  if (candidates.empty()) return;
  chen_detail::consider_kept(problem, chen_sqrt_checkpoints(candidates), choice);
  chen_detail::consider_greedy(problem, candidates, choice);
}

PlanFunction decode_chen_sqrt(const Decoder& d) {
  const std::string over = d.optional_word("over", chen_detail::kCandidates, "any");
  return [over](const RematProblem& problem, const PlanRequest& request) {
    ScheduleChoice choice(problem, request, "chen_sqrt");
    for (const std::vector<NodeIndex>& candidates : checkpoint_candidates(problem, over))
      chen_detail::consider_kept(problem, chen_sqrt_checkpoints(candidates), choice);
    return choice.result();
  };
}

PlanFunction decode_chen_greedy(const Decoder& d) {
  const std::string over = d.optional_word("over", chen_detail::kCandidates, "any");
  return [over](const RematProblem& problem, const PlanRequest& request) {
    ScheduleChoice choice(problem, request, "chen_greedy");
    for (const std::vector<NodeIndex>& candidates : checkpoint_candidates(problem, over))
      chen_detail::consider_greedy(problem, candidates, choice);
    return choice.result();
  };
}

}  // namespace tidemark
