#include "policies/remat/keep_set.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "graph/analysis/dependency_graph.hpp"
#include "policies/remat/spread_evenly.hpp"

namespace tidemark {
namespace keep_set_detail {
namespace {

constexpr std::size_t kThresholds = 400;  // thresholds of chen_greedy that are tried at most
// Sums of consecutive bytes among which these are chosen: all of up to 1,024 nodes, evenly fewer
// of more.
constexpr std::size_t kSums = 524'288;

// Recomputes the values that later nodes need: by node whether its value is there.
class Recomputation {
 public:
  Recomputation(const RematProblem& problem, const std::vector<bool>& kept)
      : problem_(problem),
        forward_(forward_count(problem)),
        there_(problem.size()),
        is_again_(problem.size()) {
    for (NodeIndex node = 0; node < forward_; ++node) {
      schedule_.push_back(node);
      const bool read = !problem.readers[node].empty() && problem.readers[node].front() < forward_;
      there_[node] = kept[node] || problem.once[node] || !read;  // the loss
      last_read_.push_back(problem.readers[node].empty() ? 0 : problem.readers[node].back());
    }
  }
  [[nodiscard]] NodeIndex forward() const { return forward_; }
  [[nodiscard]] bool there(NodeIndex node) const { return there_[node]; }

  // Computes the missing ancestors of `node`, then the node.
  void compute(NodeIndex node) {
    if (too_long()) return;
    recompute({}, node, {node});
    schedule_.push_back(node);
    there_[node] = true;
  }
  // Recomputes `nodes`, and the missing ancestors of them and of `for_these`.
  void recompute(const std::vector<NodeIndex>& nodes, NodeIndex before,
                 const std::vector<NodeIndex>& for_these = {}) {
    again_.clear();
    for (const NodeIndex node : nodes) {
      if (!problem_.once[node]) add(node);
    }
    for (const NodeIndex node : for_these)
      add_missing(node);
    for (std::size_t k = 0; k < again_.size(); ++k)
      add_missing(again_[k]);
    std::sort(again_.begin(), again_.end());
    for (const NodeIndex node : again_) {
      schedule_.push_back(node);
      there_[node] = node >= forward_ || last_read_[node] >= before;
      is_again_[node] = false;
    }
  }
  [[nodiscard]] bool too_long() const { return schedule_.size() > kMostComputations; }
  [[nodiscard]] Schedule take() { return too_long() ? Schedule{} : std::move(schedule_); }

 private:
  void add(NodeIndex node) {
    if (is_again_[node]) return;
    is_again_[node] = true;
    again_.push_back(node);
  }
  void add_missing(NodeIndex node) {
    for (const NodeIndex dep : problem_.deps[node]) {
      if (!there_[dep]) add(dep);
    }
  }

  const RematProblem& problem_;
  NodeIndex forward_;
  std::vector<bool> there_;
  std::vector<NodeIndex> last_read_;  // by forward node
  std::vector<NodeIndex> again_;
  std::vector<bool> is_again_;  // by node
  Schedule schedule_;
};

}  // namespace
}  // namespace keep_set_detail

Schedule keep_schedule(const RematProblem& problem, const std::vector<bool>& kept) {
  keep_set_detail::Recomputation again(problem, kept);
  for (NodeIndex node = again.forward(); node < problem.size(); ++node)
    again.compute(node);
  return again.take();
}

namespace keep_set_detail {
namespace {

// Returns the forward nodes by segment: up to and with each checkpoint, and after the last.
std::vector<std::vector<NodeIndex>> segments_of(const RematProblem& problem,
                                                const std::vector<NodeIndex>& checkpoints,
                                                std::vector<std::size_t>& segment) {
  const NodeIndex forward = forward_count(problem);
  segment.resize(forward);
  std::vector<std::vector<NodeIndex>> segments(checkpoints.size() + 1);
  for (NodeIndex node = 0; node < forward; ++node) {
    const auto next = std::lower_bound(checkpoints.begin(), checkpoints.end(), node);
    segment[node] = static_cast<std::size_t>(next - checkpoints.begin());
    const bool kept = next != checkpoints.end() && *next == node;
    const std::vector<NodeIndex>& readers = problem.readers[node];
    if (!kept && !readers.empty() && readers.front() >= forward) {
      // Nodes that only backward reads may be listed after the checkpoint that ends their segment.
      std::size_t made = 0;
      bool inside = false;
      for (const NodeIndex dep : problem.deps[node]) {
        if (std::binary_search(checkpoints.begin(), checkpoints.end(), dep)) continue;
        made = std::max(made, segment[dep]);
        inside = true;
      }
      if (inside) segment[node] = made;
    }
    if (!kept) segments[segment[node]].push_back(node);
  }
  return segments;
}

}  // namespace
}  // namespace keep_set_detail

Schedule segment_schedule(const RematProblem& problem, const std::vector<NodeIndex>& checkpoints) {
  std::vector<bool> kept(problem.size());
  for (const NodeIndex node : checkpoints)
    kept[node] = true;
  keep_set_detail::Recomputation again(problem, kept);
  std::vector<std::size_t> segment;
  const auto segments = keep_set_detail::segments_of(problem, checkpoints, segment);
  std::vector<bool> done(segments.size());
  for (NodeIndex node = again.forward(); node < problem.size() && !again.too_long(); ++node) {
    // The latest segment first, whose values the earliest backward nodes read.
    for (std::size_t k = problem.deps[node].size(); k-- > 0;) {
      const NodeIndex dep = problem.deps[node][k];
      if (dep >= again.forward() || again.there(dep) || done[segment[dep]]) continue;
      done[segment[dep]] = true;
      again.recompute(segments[segment[dep]], node);
    }
    again.compute(node);
  }
  return again.take();
}

std::vector<NodeIndex> every(const std::vector<NodeIndex>& candidates, std::int64_t period) {
  std::vector<NodeIndex> kept;
  for (auto k = static_cast<std::size_t>(period) - 1; k < candidates.size();
       k += static_cast<std::size_t>(period))
    kept.push_back(candidates[k]);
  return kept;
}

std::vector<NodeIndex> forward_nodes(const RematProblem& problem) {
  std::vector<NodeIndex> nodes(forward_count(problem));
  std::iota(nodes.begin(), nodes.end(), NodeIndex{0});
  return nodes;
}

std::vector<NodeIndex> articulation_nodes(const RematProblem& problem) {
  const NodeIndex forward = forward_count(problem);
  // The network's input is added before every source and its output after every sink.
  DependencyGraph graph(forward + 2);
  std::vector<bool> source(forward, true);
  std::vector<bool> sink(forward, true);
  for (NodeIndex node = 0; node < forward; ++node) {
    if (problem.off_main_path[node]) continue;
    for (const NodeIndex dep : problem.deps[node]) {
      if (problem.off_main_path[dep]) continue;
      add_edge(dep, node, {}, graph);
      source[node] = false;
      sink[dep] = false;
    }
  }
  for (NodeIndex node = 0; node < forward; ++node) {
    if (problem.off_main_path[node]) continue;
    if (source[node]) add_edge(forward, node, {}, graph);
    if (sink[node]) add_edge(node, forward + 1, {}, graph);
  }
  std::vector<NodeIndex> nodes;
  for (const std::size_t point : articulation_points(graph)) {
    if (point < forward && !sink[point]) nodes.push_back(static_cast<NodeIndex>(point));
  }
  return nodes;
}

std::vector<NodeIndex> passed_on_outputs(const RematProblem& problem) {
  std::vector<NodeIndex> nodes;  // the last of each block, first
  const NodeIndex forward = forward_count(problem);
  for (NodeIndex node = 0; node < forward; ++node) {
    if (problem.block[node] == kNoBlock) continue;
    const bool same = !nodes.empty() && problem.block[nodes.back()] == problem.block[node];
    if (same) {
      nodes.back() = node;
    } else {
      nodes.push_back(node);
    }
  }
  const auto passed_on = [&](NodeIndex node) {
    const std::vector<NodeIndex>& readers = problem.readers[node];
    return std::any_of(readers.begin(), readers.end(), [&](NodeIndex reader) {
      return reader < forward && problem.block[reader] != problem.block[node];
    });
  };
  for (NodeIndex& output : nodes) {
    const int block = problem.block[output];
    NodeIndex node = output;
    while (node > 0 && problem.block[node] == block && !passed_on(node))
      --node;
    if (problem.block[node] == block && passed_on(node)) output = node;
  }
  return nodes;
}

std::vector<NodeIndex> chen_sqrt_checkpoints(const std::vector<NodeIndex>& candidates) {
  const auto every = std::max<std::size_t>(
      1, static_cast<std::size_t>(std::sqrt(static_cast<double>(candidates.size()))));
  std::vector<NodeIndex> kept;
  for (std::size_t k = every - 1; k < candidates.size(); k += every)
    kept.push_back(candidates[k]);
  return kept;
}

std::vector<NodeIndex> chen_greedy_checkpoints(const RematProblem& problem,
                                               const std::vector<NodeIndex>& candidates,
                                               std::int64_t threshold) {
  std::vector<NodeIndex> kept;
  std::int64_t sum = 0;
  NodeIndex next = 0;
  for (const NodeIndex candidate : candidates) {
    for (; next <= candidate; ++next)
      sum += problem.bytes[next];
    if (sum <= threshold) continue;
    kept.push_back(candidate);
    sum = 0;
  }
  return kept;
}

std::vector<std::int64_t> chen_greedy_thresholds(const RematProblem& problem) {
  // Only a threshold that is such a sum can change a choice.
  std::vector<std::int64_t> thresholds{0};
  const NodeIndex forward = forward_count(problem);
  const auto stride =
      static_cast<NodeIndex>(std::size_t{forward} * forward / 2 / keep_set_detail::kSums) + 1;
  for (NodeIndex first = 0; first < forward; first += stride) {
    std::int64_t sum = 0;
    for (NodeIndex node = first; node < forward; ++node)
      thresholds.push_back(sum += problem.bytes[node]);
  }
  std::sort(thresholds.begin(), thresholds.end());
  thresholds.erase(std::unique(thresholds.begin(), thresholds.end()), thresholds.end());
  const std::size_t step = thresholds.size() / keep_set_detail::kThresholds + 1;
  std::vector<std::int64_t> chosen;
  for (std::size_t k = 0; k < thresholds.size(); k += step)
    chosen.push_back(thresholds[k]);
  return spread_evenly(std::move(chosen));
}

}  // namespace tidemark
