// What the stack of an allocation says about the tensor: which phase of the step, which operator,
// which layer. Names of operators are those of graph/operators, whatever PyTorch calls them there:
// "linear" for addmm, mm and torch/nn/modules/linear.py.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <unordered_map>

namespace tidemark {

// Empty where the recording does not say.
struct AllocationNames {
  std::string phase;   // "initial", "forward", "backward", "optimizer"
  std::string op;      // operator_family(); of an optimizer "create_state" or "update"
  std::string layer;   // "h.3.attn"
  std::string tensor;  // within the model

  friend bool operator==(const AllocationNames&, const AllocationNames&) = default;
};

// As in the `frames` of a snapshot: innermost first.
struct StackFrame {
  std::string_view name;  // of the function: "forward", "at::_ops::addmm::call(...)"
  std::string_view file;  // "/usr/lib/python3/torch/nn/functional.py", "??"
};

// The operator of graph/operators that an ATen name, a function of torch.nn.functional or one of
// its own names stands for: "native_layer_norm_backward", "layer_norm" and "layer_norm.backward"
// are all "layer_norm". A name that is none of those comes back without overload and direction.
[[nodiscard]] std::string operator_family(std::string_view name);
// "create_state" or "update", of the operators of optimizers: "adamw.create_state".
[[nodiscard]] std::string optimizer_family(std::string_view name);

// Reads stacks. Frames of PyTorch that are told apart (version 1.13 to 2.9):
//   at::_ops::NAME::call, at::native::NAME, wrapper_CUDA_NAME   an operator of ATen
//   torch::autograd::generated::NAMEBackward0::apply            a node of autograd: backward
//   torch/nn/functional.py, torch/nn/modules/*.py               a module's forward; or, with
//                                                               __init__ or _apply, its parameters
//   torch/optim/*.py                                            an optimizer's step
// The innermost operator that is known counts: composite ones (cross_entropy, linear) allocate
// nothing of their own. Snapshots that Tidemark has written say everything.
class StackNames {
 public:
  [[nodiscard]] AllocationNames of(std::span<const StackFrame> frames);

 private:
  struct Meaning {
    std::string op;      // known to graph/operators, or empty
    std::string phase;   // that the frame tells by itself
    std::string python;  // operator of a module or of torch.nn.functional
  };
  const Meaning& meaning_of(const StackFrame& frame);

  std::unordered_map<std::string, Meaning> known_;  // frames are few, stacks many
  std::string key_;
};

}  // namespace tidemark
