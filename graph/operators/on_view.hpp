// Functions in place on a view: torch.nn.ReLU(inplace=True) of a permuted tensor, say.
//
// The node's input is the tensor that the view is of, its base, and the attributes say which part
// of it is changed. Autograd gives the base a node CopySlices around the function's own:
//
//   gradient of the base  ->  copy of all of it  ->  clone of the part  ->  function's backward
//                                     ^------------- copied back <------------------'
//
// Whoever reads the view afterwards reads the base as_strided.
#pragma once

#include "graph/operators/kernels.hpp"

namespace tidemark {

// Returns the attributes that make a function in place change the part of its base that `view` is.
void change_view(Attributes& attributes, const Tensor& view);

// Returns what the function reads and writes: its input, or the part of it.
[[nodiscard]] Tensor changed_part(const NodeView& node);

// The gradients around a function in place; of one that is not on a view, those of the node.
class ChangedPart {
 public:
  explicit ChangedPart(BackwardBuilder& backward);
  // Returns the gradient that the function's own backward starts from.
  [[nodiscard]] const Tensor& gradient() const { return gradient_; }
  // Makes `result`, the gradient of the part, that of the input.
  void finish(const Tensor& result);
  // Whether `kernel` was launched as a part of CopySlices itself, which does without a tensor for
  // its result: torch registers its backward as a composite, so what it makes and CopySlices drops
  // lives inside one operator. Launches nothing where the function is not on a view.
  [[nodiscard]] bool launch_inside(BackwardBuilder::Kernel kernel, const Tensor& result);

 private:
  BackwardBuilder& backward_;
  bool on_view_;
  Tensor whole_;
  Tensor gradient_;
};

}  // namespace tidemark
