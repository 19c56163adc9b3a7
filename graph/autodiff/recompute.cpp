// Tensors that backward recomputes instead of keeping them, and the place of communication among
// the kernels of backward.
#include <algorithm>
#include <string>
#include <utility>

#include "graph/autodiff/gradient_tape.hpp"
#include "graph/operators/family.hpp"

namespace tidemark {

Tensor GradientTape::create_temporary(std::string_view name, const Shape& shape, DType dtype) {
  const Tensor tensor = create(name, shape, dtype);
  Storage& storage = training_.storages[tensor.storage];
  if (storage.role == Role::kSavedActivation) storage.role = Role::kTemporary;
  return tensor;
}

// Returns the storage that has the content of a storage of forward by now.
StorageId GradientTape::content_of(StorageId storage) const {
  const bool recomputed = recomputed_.contains(storage) && recomputed_[storage].valid();
  return recomputed ? recomputed_[storage] : storage;
}

void GradientTape::recompute(NodeId maker) {
  const Node& node = graph_.nodes[maker];
  Tensor result = graph_.tensors[node.outputs.front()];
  const StorageId made = result.storage;
  if (recomputed_[made].valid()) return;
  const NodeView view(graph_, maker, rules_);
  const NodeId reader = std::exchange(current_, maker);
  result.storage = create_temporary(node.family->name, result.shape, result.dtype).storage;
  training_.storages[result.storage].role = Role::kCommunication;
  launch({.name = node.family->name,
          .reads = {view.input(0)},
          .creates = {result},
          .work = node.family->forward(view).work});
  current_ = reader;
  recomputed_[made] = result.storage;
}

// Recomputes what a backward node is about to read and forward has not kept.
void GradientTape::recompute_for(NodeId reader) {
  for (NodeId maker : saved_[reader].recomputed)
    recompute(maker);
}

bool GradientTape::are_independent(OperatorId a, OperatorId b) const {
  for (const Touch& one : training_.touches_of(a)) {
    for (const Touch& other : training_.touches_of(b)) {
      const bool writes = one.access != Access::kRead || other.access != Access::kRead;
      if (one.storage == other.storage && writes) return false;
    }
  }
  return true;
}

// Communication of an input's gradient is issued as soon as the gradient is there, so that it runs
// beside the product that makes the weight's gradient (Megatron's async_grad_allreduce).
//
//   compute  dX  dW               dX of the layer before
//   tensor      [ reduce dX ]
void GradientTape::issue_early() {
  std::vector<OperatorId>& part = *part_;
  for (std::size_t at = part.size() - 1; at > 0; --at) {
    const OperatorPart before = training_.operators[part[at - 1]].part;
    const bool of_parameter = before == OperatorPart::kWeightGradient ||
                              before == OperatorPart::kBiasGradient ||
                              before == OperatorPart::kCopyGradient;
    if (!of_parameter || !are_independent(part[at - 1], part[at])) return;
    std::swap(part[at - 1], part[at]);
  }
}

}  // namespace tidemark
