#include "policies/solver/keep_set.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "graph/analysis/dependency_graph.hpp"

namespace tidemark {
namespace {

constexpr std::size_t kThresholds = 400;  // of chen_greedy that are tried at most

// What later nodes need again: by node whether its value is there.
class Recomputation {
 public:
  Recomputation(const RematProblem& problem, const std::vector<bool>& kept)
      : problem_(problem), forward_(forward_count(problem)), there_(problem.size()) {
    for (NodeIndex node = 0; node < forward_; ++node) {
      schedule_.push_back(node);
      const bool read = !problem.readers[node].empty() && problem.readers[node].front() < forward_;
      there_[node] = kept[node] || problem.once[node] || !read;  // the loss
      last_read_.push_back(problem.readers[node].empty() ? 0 : problem.readers[node].back());
    }
  }
  [[nodiscard]] NodeIndex forward() const { return forward_; }
  [[nodiscard]] bool there(NodeIndex node) const { return there_[node]; }

  // The missing of what `node` comes from, then the node.
  void compute(NodeIndex node) {
    missing_.clear();
    collect(node);
    std::sort(missing_.begin(), missing_.end());
    compute_again(missing_, node);
    schedule_.push_back(node);
    there_[node] = true;
  }
  void compute_again(const std::vector<NodeIndex>& nodes, NodeIndex before) {
    for (const NodeIndex node : nodes) {
      if (problem_.once[node]) continue;
      schedule_.push_back(node);
      there_[node] = node >= forward_ || last_read_[node] >= before;
    }
  }
  [[nodiscard]] Schedule take() { return std::move(schedule_); }

 private:
  void collect(NodeIndex node) {
    std::vector<NodeIndex> stack{node};
    while (!stack.empty()) {
      const NodeIndex i = stack.back();
      stack.pop_back();
      for (const NodeIndex dep : problem_.deps[i]) {
        if (there_[dep] || std::find(missing_.begin(), missing_.end(), dep) != missing_.end()) {
          continue;
        }
        missing_.push_back(dep);
        stack.push_back(dep);
      }
    }
  }

  const RematProblem& problem_;
  NodeIndex forward_;
  std::vector<bool> there_;
  std::vector<NodeIndex> last_read_;  // by forward node
  std::vector<NodeIndex> missing_;
  Schedule schedule_;
};

}  // namespace

Schedule keep_schedule(const RematProblem& problem, const std::vector<bool>& kept) {
  Recomputation again(problem, kept);
  for (NodeIndex node = again.forward(); node < problem.size(); ++node)
    again.compute(node);
  return again.take();
}

Schedule segment_schedule(const RematProblem& problem, const std::vector<NodeIndex>& checkpoints) {
  std::vector<bool> kept(problem.size());
  for (const NodeIndex node : checkpoints)
    kept[node] = true;
  Recomputation again(problem, kept);
  std::vector<bool> done(checkpoints.size() + 1);
  for (NodeIndex node = again.forward(); node < problem.size(); ++node) {
    // The latest segment first, whose values the earliest backward nodes read.
    for (std::size_t k = problem.deps[node].size(); k-- > 0;) {
      const NodeIndex dep = problem.deps[node][k];
      if (dep >= again.forward() || again.there(dep)) continue;
      const auto next = std::lower_bound(checkpoints.begin(), checkpoints.end(), dep);
      const auto index = static_cast<std::size_t>(next - checkpoints.begin());
      if (done[index]) continue;
      done[index] = true;
      const NodeIndex begin = next == checkpoints.begin() ? 0 : *std::prev(next) + 1;
      const NodeIndex end = next == checkpoints.end() ? again.forward() : *next;
      std::vector<NodeIndex> segment(end - begin);
      std::iota(segment.begin(), segment.end(), begin);
      again.compute_again(segment, node);
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
  // With the network's input before every source and its output behind every sink.
  DependencyGraph graph(forward + 2);
  for (NodeIndex node = 0; node < forward; ++node) {
    for (const NodeIndex dep : problem.deps[node])
      add_edge(dep, node, {}, graph);
    const std::vector<NodeIndex>& readers = problem.readers[node];
    if (problem.deps[node].empty()) add_edge(forward, node, {}, graph);
    if (readers.empty() || readers.front() >= forward) add_edge(node, forward + 1, {}, graph);
  }
  std::vector<NodeIndex> nodes;
  for (const std::size_t point : articulation_points(graph)) {
    if (point + 1 < forward) nodes.push_back(static_cast<NodeIndex>(point));
  }
  return nodes;
}

std::vector<NodeIndex> block_outputs(const RematProblem& problem) {
  std::vector<NodeIndex> nodes;
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
  return nodes;
}

std::vector<NodeIndex> passed_on_outputs(const RematProblem& problem) {
  std::vector<NodeIndex> nodes = block_outputs(problem);
  const NodeIndex forward = forward_count(problem);
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
  const NodeIndex forward = forward_count(problem);
  for (NodeIndex node = 0; node < forward; ++node) {
    sum += problem.bytes[node];
    if (sum <= threshold || !std::binary_search(candidates.begin(), candidates.end(), node)) {
      continue;
    }
    kept.push_back(node);
    sum = 0;
  }
  return kept;
}

std::vector<std::vector<NodeIndex>> chen_greedy_checkpoints(
    const RematProblem& problem, const std::vector<NodeIndex>& candidates) {
  // Only a threshold that is such a sum can change a choice.
  std::vector<std::int64_t> thresholds{0};
  const NodeIndex forward = forward_count(problem);
  for (NodeIndex first = 0; first < forward; ++first) {
    std::int64_t sum = 0;
    for (NodeIndex node = first; node < forward; ++node)
      thresholds.push_back(sum += problem.bytes[node]);
  }
  std::sort(thresholds.begin(), thresholds.end());
  thresholds.erase(std::unique(thresholds.begin(), thresholds.end()), thresholds.end());
  const std::size_t step = thresholds.size() / kThresholds + 1;
  std::vector<std::vector<NodeIndex>> all;
  for (std::size_t k = 0; k < thresholds.size(); k += step) {
    std::vector<NodeIndex> kept = chen_greedy_checkpoints(problem, candidates, thresholds[k]);
    if (all.empty() || all.back() != kept) all.push_back(std::move(kept));
  }
  return all;
}

}  // namespace tidemark
