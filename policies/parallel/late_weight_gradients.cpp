#include "policies/parallel/late_weight_gradients.hpp"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

namespace tidemark {
namespace late_weight_gradients_detail {
namespace {

bool reduces_over_tensor(const Operator& op) {
  const Collective& collective = op.work.collective;
  return op.work.op_class == OperatorClass::kCollective &&
         collective.group == MeshDimension::kTensor &&
         (collective.kind == CollectiveKind::kAllReduce ||
          collective.kind == CollectiveKind::kReduceScatter);
}

// Moves weight gradients within one list of operators.
class Mover {
 public:
  Mover(const TrainingGraph& graph, std::vector<OperatorId> operators)
      : graph_(graph), operators_(std::move(operators)) {}

  std::vector<OperatorId> run() {
    std::size_t begin = 0;  // behind the reduction before
    for (std::size_t i = 0; i < operators_.size(); ++i) {
      if (!reduces_over_tensor(graph_.operators[operators_[i]])) continue;
      move_behind(i, begin);
      begin = i + 1;
    }
    return std::move(operators_);
  }

 private:
  // Returns the forward nodes whose input gradients, added up, are what the operator at `i`
  // reduces.
  [[nodiscard]] std::set<NodeId> reduced_nodes(std::size_t i, std::size_t begin) const {
    std::set<StorageId> values;
    for (const Touch& touch : graph_.touches_of(operators_[i]))
      values.insert(touch.storage);
    std::set<NodeId> nodes;
    for (std::size_t j = i; j-- > begin;) {
      const Operator& op = graph_.operators[operators_[j]];
      const bool adds = op.part == OperatorPart::kAddGradients;
      if (!adds && op.part != OperatorPart::kInputGradient) continue;
      const std::span<const Touch> touches = graph_.touches_of(operators_[j]);
      const bool makes = std::any_of(touches.begin(), touches.end(), [&](const Touch& touch) {
        return touch.access != Access::kRead && values.contains(touch.storage);
      });
      if (!makes) continue;
      if (!adds) {
        nodes.insert(op.node);
        continue;
      }
      for (const Touch& touch : touches)
        values.insert(touch.storage);
    }
    return nodes;
  }

  // Whether the order of two operators matters.
  [[nodiscard]] bool depend(OperatorId a, OperatorId b) const {
    for (const Touch& of_a : graph_.touches_of(a)) {
      for (const Touch& of_b : graph_.touches_of(b)) {
        const bool reads = of_a.access == Access::kRead && of_b.access == Access::kRead;
        if (of_a.storage == of_b.storage && !reads) return true;
      }
    }
    return false;
  }

  // Returns, for each operator from `begin` on, whether it is a weight gradient of these nodes or
  // makes .grad of one.
  [[nodiscard]] std::vector<bool> wanted(const std::set<NodeId>& nodes, std::size_t begin,
                                         std::size_t end) const {
    std::vector<bool> found;
    std::set<StorageId> made;
    for (std::size_t j = begin; j < end; ++j) {
      const Operator& op = graph_.operators[operators_[j]];
      const std::span<const Touch> touches = graph_.touches_of(operators_[j]);
      const bool makes_grad = op.part == OperatorPart::kCopyGradient &&
                              std::any_of(touches.begin(), touches.end(), [&](const Touch& touch) {
                                return made.contains(touch.storage);
                              });
      const bool weight = op.part == OperatorPart::kWeightGradient && nodes.contains(op.node);
      found.push_back(weight || makes_grad);
      for (const Touch& touch : touches) {
        if (weight && touch.access != Access::kRead) made.insert(touch.storage);
      }
    }
    return found;
  }

  void move_behind(std::size_t reduction, std::size_t begin) {
    const std::vector<bool> late = wanted(reduced_nodes(reduction, begin), begin, reduction);
    std::vector<OperatorId> stay{operators_[reduction]};
    std::vector<OperatorId> moved;
    for (std::size_t j = reduction; j-- > begin;) {
      const OperatorId id = operators_[j];
      const bool moves =
          late[j - begin] && std::none_of(stay.begin(), stay.end(),
                                          [&](OperatorId other) { return depend(id, other); });
      (moves ? moved : stay).push_back(id);
    }
    auto next = operators_.begin() + static_cast<std::ptrdiff_t>(begin);
    next = std::copy(stay.rbegin(), stay.rend(), next);
    std::copy(moved.rbegin(), moved.rend(), next);
  }

  const TrainingGraph& graph_;
  std::vector<OperatorId> operators_;
};

}  // namespace
}  // namespace late_weight_gradients_detail

void LateWeightGradients::apply(TrainingGraph& graph, const RewriteContext& context) const {
  if (context.mesh.size(MeshDimension::kTensor) == 1 || context.system != TrainingSystem::kMegatron)
    return;
  std::vector<OperatorId>& backward = graph.part(PartKind::kBackward);
  backward = late_weight_gradients_detail::Mover(graph, std::move(backward)).run();
}

}  // namespace tidemark
