#include "policies/solver/chen.hpp"

#include <string>

#include "graph/core/errors.hpp"
#include "policies/remat/keep_set.hpp"
#include "policies/solver/choose_schedule.hpp"

namespace tidemark {
namespace chen_detail {
namespace {

// `any`: each kind in turn, and the budget chooses.
constexpr std::string_view kCandidates[] = {"any", "layers", "articulation", "nodes"};

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

PlanFunction decode_chen_sqrt(const Decoder& d) {
  const std::string over = d.optional_word("over", chen_detail::kCandidates, "any");
  return chosen_from("chen_sqrt", [over](const RematProblem& problem) {
    std::vector<std::vector<NodeIndex>> all;
    for (const std::vector<NodeIndex>& candidates : checkpoint_candidates(problem, over))
      all.push_back(chen_sqrt_checkpoints(candidates));
    return chen_detail::schedules_of(problem, all);
  });
}

PlanFunction decode_chen_greedy(const Decoder& d) {
  const std::string over = d.optional_word("over", chen_detail::kCandidates, "any");
  return chosen_from("chen_greedy", [over](const RematProblem& problem) {
    std::vector<std::vector<NodeIndex>> all;
    for (const std::vector<NodeIndex>& candidates : checkpoint_candidates(problem, over)) {
      const auto swept = chen_greedy_checkpoints(problem, candidates);
      all.insert(all.end(), swept.begin(), swept.end());
    }
    return chen_detail::schedules_of(problem, all);
  });
}

}  // namespace tidemark
