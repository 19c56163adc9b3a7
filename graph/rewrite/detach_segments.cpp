#include "graph/rewrite/detach_segments.hpp"

#include <algorithm>
#include <cstddef>
#include <set>
#include <vector>

#include "graph/rewrite/graph_copy.hpp"

namespace tidemark {
namespace detach_segments_detail {
namespace {

class Detachment {
 public:
  Detachment(const Graph& graph, std::span<const BlockRange> segments)
      : graph_(graph),
        parameter_(graph.tensors.size()),
        requires_(graph.tensors.size(), 0),
        reads_outside_(graph.tensors.size(), 0),
        segment_(static_cast<std::size_t>(graph.blocks), kOutside) {
    for (std::size_t s = 0; s < segments.size(); ++s) {
      for (int block = segments[s].first; block < std::min(segments[s].end, graph.blocks); ++block)
        segment_[static_cast<std::size_t>(block)] = static_cast<int>(s);
    }
    nodes_.resize(segments.size());
    detached_.assign(segments.size(), 0);
    for (ParameterId id : ids_of(graph.parameters))
      parameter_[graph.parameters[id].tensor] = id;
    for (TensorId id : ids_of(graph.tensors))
      requires_[id] = graph.tensors[id].requires_grad ? 1 : 0;
    for (NodeId id : ids_of(graph.nodes)) {
      if (const int s = segment_of(id); s != kOutside)
        nodes_[static_cast<std::size_t>(s)].push_back(id);
    }
  }

  // Returns the parameters that get no gradient because of it.
  std::vector<TensorId> run() {
    std::vector<char> seen(nodes_.size(), 0);
    for (NodeId id : ids_of(graph_.nodes)) {
      const int s = segment_of(id);
      if (s != kOutside && seen[static_cast<std::size_t>(s)] == 0) {
        seen[static_cast<std::size_t>(s)] = 1;
        detached_[static_cast<std::size_t>(s)] = enters(s) ? 0 : 1;
      }
      visit(id, s != kOutside && detached_[static_cast<std::size_t>(s)] != 0);
    }
    std::vector<TensorId> found;
    for (const Parameter& parameter : graph_.parameters) {
      const TensorId tensor = parameter.tensor;
      if (graph_.tensors[tensor].requires_grad && read_inside_.contains(tensor) &&
          reads_outside_[tensor] == 0) {
        found.push_back(tensor);
      }
    }
    return found;
  }

 private:
  static constexpr int kOutside = -1;

  [[nodiscard]] int segment_of(NodeId id) const {
    const int block = graph_.block_of(graph_.nodes[id].layer);
    return block < 0 ? kOutside : segment_[static_cast<std::size_t>(block)];
  }
  // Whether something with a gradient that is no parameter comes into a segment from outside.
  [[nodiscard]] bool enters(int segment) const {
    std::set<TensorId> made;
    for (NodeId id : nodes_[static_cast<std::size_t>(segment)]) {
      for (TensorId in : graph_.nodes[id].inputs) {
        if (in.valid() && !parameter_[in].valid() && !made.contains(in) && requires_[in] != 0)
          return true;
      }
      made.insert(graph_.nodes[id].outputs.begin(), graph_.nodes[id].outputs.end());
    }
    return false;
  }
  void visit(NodeId id, bool detached) {
    const Node& node = graph_.nodes[id];
    bool any = false;
    bool any_before = false;
    for (TensorId in : node.inputs) {
      if (!in.valid()) continue;
      any = any || requires_[in] != 0;
      any_before = any_before || graph_.tensors[in].requires_grad;
      if (!parameter_[in].valid()) continue;
      if (detached) {
        read_inside_.insert(in);
      } else {
        reads_outside_[in] = 1;
      }
    }
    // Without operands that required one, the node asks for a gradient itself (requires_grad_()).
    if (!detached && (any || !any_before)) return;
    for (TensorId out : node.outputs)
      requires_[out] = 0;
  }

  const Graph& graph_;
  IdVector<TensorId, ParameterId> parameter_;
  IdVector<TensorId, char> requires_;  // as PyTorch has it, of what has been visited
  IdVector<TensorId, char> reads_outside_;
  std::set<TensorId> read_inside_;
  std::vector<int> segment_;  // by block
  std::vector<std::vector<NodeId>> nodes_;
  std::vector<char> detached_;  // by segment
};

}  // namespace
}  // namespace detach_segments_detail

std::vector<BlockRange> segments_of(int blocks, int period) {
  std::vector<BlockRange> segments;
  for (int first = 0; first < blocks; first += period)
    segments.push_back({first, std::min(first + period, blocks)});
  return segments;
}

std::vector<TensorId> without_gradients(const Graph& graph, std::span<const BlockRange> segments) {
  if (segments.empty()) return {};
  return detach_segments_detail::Detachment(graph, segments).run();
}

std::optional<Graph> detach_segments(const Graph& graph, std::span<const BlockRange> segments) {
  const std::vector<TensorId> frozen = without_gradients(graph, segments);
  if (frozen.empty()) return std::nullopt;
  GraphCopy copy(graph);
  for (TensorId parameter : frozen)
    copy.freeze_root(parameter);
  Graph result = rewrite_graph(copy, [](GraphCopy& c, NodeId id) { c.keep(id); });
  if (!result.loss.valid() || !result.tensors[result.loss].requires_grad) return std::nullopt;
  return result;
}

}  // namespace tidemark
