#include "graph/rewrite/split_backward.hpp"

#include <algorithm>
#include <iterator>
#include <span>
#include <vector>

namespace tidemark {
namespace split_backward_detail {
namespace {

constexpr PartKind kBackwards[] = {PartKind::kBackward, PartKind::kBackwardAccumulate,
                                   PartKind::kBackwardReduce};

class BackwardSplitter {
 public:
  explicit BackwardSplitter(TrainingGraph& graph)
      : graph_(graph),
        of_weights_(graph.operators.size(), 0),
        written_(graph.storages.size(), 0),
        made_(graph.storages.size(), 0) {}

  void split(std::uint16_t chunk) {
    for (const PartKind kind : kBackwards) {
      std::vector<OperatorId>& all = graph_.part(kind, chunk);
      std::vector<OperatorId> weights;
      for (const OperatorId op : all)
        static_cast<void>(belongs_to_weights(op));
      take_buffers(all);
      std::copy_if(all.begin(), all.end(), std::back_inserter(weights),
                   [&](OperatorId op) { return of_weights_[op] != 0; });
      std::erase_if(all, [&](OperatorId op) { return of_weights_[op] != 0; });
      // A chunk that only has weights keeps its parts apart from those of a chunk with none.
      graph_.part(weight_part_of(kind), chunk) = std::move(weights);
    }
  }

  // Ends the holds of autograd's nodes and of the schedule when backward returns: the kernels of
  // the weights hold their operands themselves, by reading them.
  void end_holds_early() {
    OperatorId last;
    const IdVector<NodeId, OperatorId> last_of_node = last_kernels(last);
    for (Hold& hold : graph_.holds) {
      if (of_weights_[hold.until] == 0 || made_[hold.storage] != 0) continue;
      const NodeId node = graph_.operators[hold.until].node;
      const bool returns =
          node.valid() && last_of_node.contains(node) && last_of_node[node].valid();
      if (returns) {
        hold.until = last_of_node[node];
      } else if (hold.kind == HoldKind::kLocal && last.valid()) {
        hold.until = last;
      }
    }
  }

 private:
  // Returns the last kernel that each node has in backward, and in `last` that of the whole.
  IdVector<NodeId, OperatorId> last_kernels(OperatorId& last) {
    IdVector<NodeId, OperatorId> last_of_node;
    for (const PartKind kind : kBackwards) {
      for (const StepPart& part : graph_.parts.all()) {
        if (part.kind != kind || part.operators.empty()) continue;
        last = part.operators.back();
        for (const OperatorId op : part.operators) {
          const NodeId node = graph_.operators[op].node;
          if (!node.valid()) continue;
          if (!last_of_node.contains(node)) last_of_node.resize(node.index() + 1);
          last_of_node[node] = op;
        }
      }
    }
    return last_of_node;
  }

  // Whether the operator makes the gradient of a weight, or goes on with one that is made there.
  bool belongs_to_weights(OperatorId id) {
    const OperatorPart part = graph_.operators[id].part;
    bool belongs = part == OperatorPart::kWeightGradient || part == OperatorPart::kBiasGradient;
    const bool may_follow =
        part == OperatorPart::kAddGradients || part == OperatorPart::kCopyGradient ||
        part == OperatorPart::kAccumulateGradient || part == OperatorPart::kCopyIntoBucket ||
        part == OperatorPart::kAverageInBucket || part == OperatorPart::kRelease ||
        part == OperatorPart::kGather || (part == OperatorPart::kOther && !is_transfer(id));
    // A cast of a weight's gradient is a node of its own, and so is whatever else reads one.
    for (const Touch& touch : graph_.touches_of(id)) {
      belongs = belongs || (may_follow && written_[touch.storage] != 0) ||
                (touch.access != Access::kCreate && made_[touch.storage] != 0);
    }
    if (!belongs) return false;
    of_weights_[id] = 1;
    for (const Touch& touch : graph_.touches_of(id)) {
      if (touch.access != Access::kRead) written_[touch.storage] = 1;
      if (touch.access == Access::kCreate) made_[touch.storage] = 1;
    }
    return true;
  }

  // Takes what only creates buffers that the weights alone use, such as those through which
  // gradients are reduced.
  void take_buffers(const std::vector<OperatorId>& all) {
    IdVector<StorageId, char> used_elsewhere(graph_.storages.size(), 0);
    for (const OperatorId id : all) {
      if (of_weights_[id] != 0 || creates_all(id)) continue;
      for (const Touch& touch : graph_.touches_of(id))
        used_elsewhere[touch.storage] = 1;
    }
    for (const OperatorId id : all) {
      if (of_weights_[id] != 0 || graph_.operators[id].node.valid() || !creates_all(id)) continue;
      const std::span<const Touch> touches = graph_.touches_of(id);
      const bool only_weights =
          std::all_of(touches.begin(), touches.end(), [&](const Touch& touch) {
            return written_[touch.storage] != 0 && used_elsewhere[touch.storage] == 0;
          });
      of_weights_[id] = only_weights ? 1 : 0;
    }
  }

  [[nodiscard]] bool creates_all(OperatorId id) const {
    const std::span<const Touch> touches = graph_.touches_of(id);
    return !touches.empty() && std::all_of(touches.begin(), touches.end(), [](const Touch& touch) {
      return touch.access == Access::kCreate;
    });
  }

  [[nodiscard]] bool is_transfer(OperatorId id) const {
    const Work& work = graph_.operators[id].work;
    return work.op_class == OperatorClass::kCollective &&
           (work.collective.kind == CollectiveKind::kSend ||
            work.collective.kind == CollectiveKind::kReceive);
  }

  TrainingGraph& graph_;
  IdVector<OperatorId, char> of_weights_;
  IdVector<StorageId, char> written_;  // by an operator of weights
  IdVector<StorageId, char> made_;     // created by one
};

}  // namespace
}  // namespace split_backward_detail

void split_backward(TrainingGraph& graph) {
  std::uint16_t chunks = 1;
  for (const StepPart& part : graph.parts.all())
    chunks = std::max(chunks, static_cast<std::uint16_t>(part.chunk + 1));
  split_backward_detail::BackwardSplitter splitter(graph);
  for (std::uint16_t chunk = 0; chunk < chunks; ++chunk)
    splitter.split(chunk);
  splitter.end_holds_early();
}

}  // namespace tidemark
