#include "policies/solver/stages.hpp"

#include <algorithm>

#include "policies/remat/keep_set.hpp"

namespace tidemark {
namespace stages_detail {
namespace {

// The end of a stage: its last forward node, and the node whose value passes on.
struct End {
  NodeIndex last = 0;
  NodeIndex output = 0;
};

// Returns for each forward node its last forward reader; the node itself where there is none.
std::vector<NodeIndex> last_forward_readers(const RematProblem& problem, NodeIndex forward) {
  std::vector<NodeIndex> last(forward);
  for (NodeIndex node = 0; node < forward; ++node) {
    const std::vector<NodeIndex>& readers = problem.readers[node];
    const auto past = std::lower_bound(readers.begin(), readers.end(), forward);
    last[node] = past == readers.begin() ? node : *(past - 1);
  }
  return last;
}

// Returns the ends of stages: places at which one value alone passes on. `whole`: values that are
// read all over the network, which do not count.
std::vector<End> ends_of(const std::vector<NodeIndex>& last, const std::vector<bool>& whole) {
  const auto forward = static_cast<NodeIndex>(last.size());
  std::vector<End> ends;
  std::vector<NodeIndex> passing;  // values that later forward nodes read
  for (NodeIndex node = 0; node + 1 < forward; ++node) {
    passing.erase(std::remove_if(passing.begin(), passing.end(),
                                 [&](NodeIndex value) { return last[value] <= node; }),
                  passing.end());
    if (!whole[node] && last[node] > node) passing.push_back(node);
    if (passing.size() != 1) continue;
    const NodeIndex output = passing.front();
    if (ends.empty() || ends.back().output != output) {
      ends.push_back({node, output});
    } else {
      ends.back().last = node;  // what follows the output is read by backward alone
    }
  }
  return ends;
}

}  // namespace
}  // namespace stages_detail

std::vector<Stage> stages_of(const RematProblem& problem, std::size_t most) {
  const NodeIndex forward = forward_count(problem);
  const std::vector<NodeIndex> last = stages_detail::last_forward_readers(problem, forward);
  std::vector<bool> whole(forward);
  for (NodeIndex node = 0; node < forward; ++node) {
    const bool takes_nothing = problem.once[node] && problem.bytes[node] == 0;
    whole[node] = takes_nothing || last[node] - node > forward / 3;
  }
  const std::vector<stages_detail::End> ends = stages_detail::ends_of(last, whole);
  // Keeps evenly fewer where there are many.
  const std::size_t step = ends.size() / std::max<std::size_t>(most - 1, 1) + 1;
  std::vector<Stage> stages(1);
  std::vector<std::size_t> stage(problem.size());
  std::size_t next = step - 1;
  for (NodeIndex node = 0; node < forward; ++node) {
    stages.back().forward.push_back(node);
    stages.back().output = node;
    stage[node] = stages.size() - 1;
    if (next >= ends.size() || ends[next].last != node) continue;
    stages.back().output = ends[next].output;
    stages.emplace_back();
    next += step;
  }
  std::size_t at = stages.size() - 1;
  for (NodeIndex node = forward; node < problem.size(); ++node) {
    for (const NodeIndex dep : problem.deps[node]) {
      if (dep >= forward || whole[dep]) continue;
      at = std::min(at, stage[dep] + (stages[stage[dep]].output == dep ? 1 : 0));
    }
    stages[at].backward.push_back(node);
  }
  return stages;
}

std::vector<Schedule> first_stages_schedules(const RematProblem& problem,
                                             const std::vector<Stage>& stages) {
  std::vector<Schedule> schedules;
  std::vector<bool> kept(problem.size(), true);
  for (const Stage& stage : stages) {
    for (const NodeIndex node : stage.forward)
      kept[node] = node == stage.output;
    schedules.push_back(keep_schedule(problem, kept));
  }
  return schedules;
}

}  // namespace tidemark
