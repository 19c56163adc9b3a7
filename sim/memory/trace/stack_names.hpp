// Reads from the stack of an allocation the phase of the step, the operator and the layer of the
// tensor. Names of operators are those of graph/operators, whatever PyTorch calls them there:
// "linear" for addmm, mm and torch/nn/modules/linear.py.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <unordered_map>

namespace tidemark {

// Names of an allocation; each is empty where the recording does not say.
struct RecordedNames {
  std::string phase;   // "initial", "forward", "backward", "optimizer"
  std::string op;      // operator_family(); for an optimizer "create_state" or "update"
  std::string layer;   // "h.3.attn"
  std::string tensor;  // name within the model

  friend bool operator==(const RecordedNames&, const RecordedNames&) = default;
};

// A frame as in the `frames` of a snapshot: innermost first.
struct StackFrame {
  std::string_view name;  // the function: "forward", "at::_ops::addmm::call(...)"
  std::string_view file;  // "/usr/lib/python3/torch/nn/functional.py", "??"
};

// Returns the operator of graph/operators that an ATen name, a function of torch.nn.functional or
// one of its own names stands for: "native_layer_norm_backward", "layer_norm" and
// "layer_norm.backward" are all "layer_norm". A name that is none of those comes back without
// overload and direction.
[[nodiscard]] std::string operator_family(std::string_view name);
// Returns "create_state" or "update" for the operators of optimizers: "adamw.create_state".
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
  [[nodiscard]] RecordedNames of(std::span<const StackFrame> frames);

 private:
  struct Meaning {
    std::string op;      // known to graph/operators, or empty
    std::string phase;   // phase, if the frame tells it by itself
    std::string python;  // operator of a module or of torch.nn.functional
  };
  const Meaning& meaning_of(const StackFrame& frame);

  std::unordered_map<std::string, Meaning> known_;  // frames are few, stacks many
  std::string key_;
};

}  // namespace tidemark
