#include "policies/remat/parts.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace tidemark {
namespace parts_detail {
namespace {

constexpr NodeIndex kNone = ~NodeIndex{0};
constexpr std::size_t kNever = ~std::size_t{0};

// Returns for each node its part, or kNone. Only parts have a negative workspace.
std::vector<NodeIndex> parts_of(const RematProblem& problem) {
  std::vector<NodeIndex> parts(problem.size(), kNone);
  for (NodeIndex node = 0; node < problem.size(); ++node) {
    if (problem.workspace[node] < 0) parts[problem.deps[node].front()] = node;
  }
  return parts;
}

// Returns for each position the parts to be made before the computation there.
std::vector<std::vector<NodeIndex>> wanted_again(const RematProblem& problem,
                                                 const std::vector<NodeIndex>& parts,
                                                 const Schedule& schedule) {
  std::vector<std::vector<std::size_t>> readers(schedule.size());  // readers of the copy made there
  std::vector<std::size_t> newest(problem.size(), kNever);
  std::vector<std::size_t> kept(schedule.size(), kNever);  // the part's copy at a node's repeat
  for (std::size_t p = 0; p < schedule.size(); ++p) {
    const NodeIndex node = schedule[p];
    for (const NodeIndex dep : problem.deps[node])
      readers[newest[dep]].push_back(p);
    if (newest[node] != kNever && parts[node] != kNone) kept[p] = newest[parts[node]];
    newest[node] = p;
  }
  std::vector<std::vector<NodeIndex>> wanted(schedule.size());
  for (std::size_t p = 0; p < schedule.size(); ++p) {
    if (kept[p] == kNever) continue;
    const std::vector<std::size_t>& of_part = readers[kept[p]];
    const auto next = std::upper_bound(of_part.begin(), of_part.end(), p);
    if (next == of_part.end()) continue;
    const std::size_t alone = (readers[p].empty() ? p : readers[p].back()) + 1;
    wanted[std::min(alone, *next)].push_back(parts[schedule[p]]);
  }
  return wanted;
}

}  // namespace
}  // namespace parts_detail

Schedule with_parts_again(const RematProblem& problem, Schedule schedule,
                          ScheduleClass schedule_class) {
  const std::vector<NodeIndex> parts = parts_detail::parts_of(problem);
  const bool any = std::any_of(parts.begin(), parts.end(),
                               [](NodeIndex part) { return part != parts_detail::kNone; });
  if (!any || schedule.size() == problem.size()) return schedule;
  // A recomputed part may have a part itself.
  for (;;) {
    std::vector<std::vector<NodeIndex>> wanted =
        parts_detail::wanted_again(problem, parts, schedule);
    Schedule next;
    next.reserve(schedule.size());
    for (std::size_t p = 0; p < schedule.size(); ++p) {
      std::sort(wanted[p].begin(), wanted[p].end());
      next.insert(next.end(), wanted[p].begin(), wanted[p].end());
      next.push_back(schedule[p]);
    }
    if (next.size() == schedule.size()) return schedule;
    // In class checkmate a part may come too late to be made.
    if (class_fault(problem, next, schedule_class)) return schedule;
    schedule = std::move(next);
  }
}

}  // namespace tidemark
