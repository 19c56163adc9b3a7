// The rules of one kind of autograd node (operators/family.hpp), and names for the parts of a node
// or of a step that the training graph's operators come from.
#pragma once

#include <cstdint>
#include <string_view>

namespace tidemark {

class Inference;        // inference.hpp
class NodeView;         // operators/node_view.hpp
struct ForwardKernel;   // operators/node_view.hpp
class SavedSet;         // operators/node_view.hpp
class BackwardBuilder;  // operators/backward_builder.hpp
class ForwardBuilder;   // operators/forward_builder.hpp

// The way in which an operator differs when its module is in eval().
enum class InEvaluation : std::uint8_t {
  kSame,
  kIdentity,   // it returns its first input: dropout
  kNothing,    // it does not run: the update of running statistics
  kOwnKernel,  // its forward rule looks at the attribute "evaluates"
};

struct OperatorFamily {
  std::string_view name;
  std::string_view summary;  // one line for `tidemark graph` and documentation
  void (*infer)(Inference&);
  ForwardKernel (*forward)(const NodeView&);
  void (*save)(SavedSet&);
  void (*backward)(BackwardBuilder&);
  InEvaluation in_evaluation = InEvaluation::kSame;
  // Tells apart families that share their rules: the spatial axes of a convolution,
  // the cell of a recurrent layer.
  int variant = 0;
  // Emits the kernels of a forward that runs several; `forward` is null then.
  void (*emit)(ForwardBuilder&) = nullptr;
  // The output is not kept for backward: the same kernel recomputes it from input 0 before the
  // first backward node that reads it.
  bool recomputed_in_backward = false;
  // Its kernels are a library's own, which a compiler of modules does not look into.
  bool opaque = false;
};

enum class OperatorPart : std::uint8_t {
  kForward,
  kInputGradient,       // gradients of a node's activations only
  kWeightGradient,      // gradient of a node's weight only
  kBiasGradient,        // gradient of a node's bias only
  kBackward,            // any other kernel of a backward node
  kDequantise,          // makes a weight from its codes, in forward or in backward
  kRecompute,           // a forward kernel that the node itself repeats in backward
  kRootGradient,        // the ones that backward starts from
  kAddGradients,        // sums the gradients of a tensor with several readers
  kCopyGradient,        // makes .grad a copy of memory that others hold or that has another type
  kCopyIntoBucket,      // copies a gradient into the buffer that ranks reduce
  kAverageInBucket,     // divides a gradient in that buffer, or copies the average out of it
  kAccumulateGradient,  // .grad of an earlier micro-batch plus a new one
  kDivideLoss,          // divides the loss by the number of micro-batches
  kCreateState,         // makes optimizer state before the first update
  kUpdate,              // updates parameters and their optimizer state
  kZeroGrad,
  kGather,       // brings parameters together that ranks share, copies them out or keeps a share
  kUseGathered,  // no work: from here on a unit's gathered parameters are used by backward
  kRelease,      // no work: what is gathered, sent or received is not used any more
  kKeepOutput,   // no work: what the loop names until the next micro-batch outlives this one
  kEndOfStep,
  kOther,  // belongs to no node: an operator of a cost graph, or one that a policy adds
};

// Whether a kernel of forward or backward computes the model, rather than adds up gradients over
// micro-batches or moves them: model and hardware FLOPs count the first.
[[nodiscard]] constexpr bool computes_model(OperatorPart part) {
  return part != OperatorPart::kCopyGradient && part != OperatorPart::kCopyIntoBucket &&
         part != OperatorPart::kAverageInBucket && part != OperatorPart::kAccumulateGradient &&
         part != OperatorPart::kDivideLoss;
}

}  // namespace tidemark
