// Emits the forward kernels of a node that runs several: communication between products.
#pragma once

#include <string_view>

#include "graph/operators/backward_builder.hpp"
#include "graph/operators/node_view.hpp"

namespace tidemark {

// Emits the forward kernels of one node, in the order of their issue. Each output and each tensor
// that is saved must be created by one of them.
class ForwardBuilder {
 public:
  ForwardBuilder(BackwardTape& tape, const NodeView& node) : tape_(tape), node_(node) {}

  [[nodiscard]] const NodeView& node() const { return node_; }
  // Returns a tensor that the node saves under this name (SavedSet::extra); only while training.
  [[nodiscard]] Tensor saved(std::string_view name) const { return tape_.saved(node_.id(), name); }
  [[nodiscard]] Tensor create(std::string_view name, const Shape& shape, DType dtype) {
    return tape_.create_temporary(name, shape, dtype);
  }
  void launch(BackwardKernel kernel) {
    if (kernel.part != OperatorPart::kDequantise) kernel.part = OperatorPart::kForward;
    tape_.launch(kernel);
  }

 private:
  BackwardTape& tape_;
  const NodeView& node_;
};

}  // namespace tidemark
