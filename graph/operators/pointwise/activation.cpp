// Unary elementwise functions: a table of the tensors that each keeps and the cost of its backward
// formula. Autograd clones an input that it keeps and that the function overwrites.
#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "graph/core/errors.hpp"
#include "graph/operators/on_view.hpp"
#include "graph/operators/registry.hpp"

namespace tidemark {
namespace activation_family_detail {

enum class Keeps { kNothing, kInput, kOutput };
enum class InPlace {
  kNo,
  kKeepsOutput,  // keeps the same tensor as the out-of-place form
  kClonesInput,  // the input is overwritten, so autograd keeps a copy
};

struct Unary {
  std::string_view name;
  std::string_view summary;
  Keeps keeps;
  InPlace in_place;
  double flops;                     // per element, forward
  int backward_temporaries = 0;     // tensors beside the result in a formula of several kernels
  int backward_masks = 0;           // bool tensors beside the result
  bool composite_backward = false;  // native_functions.yaml: CompositeImplicitAutograd
  bool keeps_order =
      false;  // the input gradient has the order of the kept tensor, not the gradient's
};

// Measured on PyTorch 1.13.1: reference/torch-op-rules. Formulas are those of derivatives.yaml:
// rsqrt is -0.5 * grad * result.pow(3), erf 2 / sqrt(pi) * exp(-(self.pow(2))) * grad.
constexpr std::array kUnaries = {
    Unary{"relu", "max(x, 0); keeps its output", Keeps::kOutput, InPlace::kKeepsOutput, 1, 0, 0,
          false, true},
    Unary{"gelu", "x times the normal distribution; keeps its input (approximate: none, tanh)",
          Keeps::kInput, InPlace::kNo, 10},
    Unary{"silu", "x sigmoid(x); keeps its input", Keeps::kInput, InPlace::kClonesInput, 6, 0, 0,
          true},
    Unary{"sigmoid", "keeps its output", Keeps::kOutput, InPlace::kKeepsOutput, 4},
    Unary{"tanh", "keeps its output", Keeps::kOutput, InPlace::kKeepsOutput, 6},
    Unary{"exp", "keeps its output", Keeps::kOutput, InPlace::kKeepsOutput, 4},
    Unary{"expm1", "exp(x) - 1; keeps its output", Keeps::kOutput, InPlace::kKeepsOutput, 5, 1},
    Unary{"sqrt", "keeps its output", Keeps::kOutput, InPlace::kKeepsOutput, 2, 1},
    Unary{"rsqrt", "1 / sqrt(x); keeps its output", Keeps::kOutput, InPlace::kKeepsOutput, 2, 2},
    Unary{"reciprocal", "1 / x; keeps its output", Keeps::kOutput, InPlace::kKeepsOutput, 2, 2},
    Unary{"relu6", "clamp to [0, 6]; keeps its input", Keeps::kInput, InPlace::kClonesInput, 2},
    Unary{"hardtanh", "clamp to [-1, 1]; keeps its input", Keeps::kInput, InPlace::kClonesInput, 2},
    Unary{"hardswish", "keeps its input", Keeps::kInput, InPlace::kClonesInput, 4},
    Unary{"hardsigmoid", "keeps its input", Keeps::kInput, InPlace::kClonesInput, 3},
    Unary{"hardshrink", "keeps its input", Keeps::kInput, InPlace::kNo, 2},
    Unary{"softshrink", "keeps its input", Keeps::kInput, InPlace::kNo, 2},
    Unary{"threshold", "a constant below a threshold; keeps its input", Keeps::kInput,
          InPlace::kClonesInput, 1, 0, 0, false, true},
    Unary{"leaky_relu", "keeps its input", Keeps::kInput, InPlace::kKeepsOutput, 2, 0, 0, false,
          true},
    Unary{"elu", "keeps its input", Keeps::kInput, InPlace::kKeepsOutput, 5},
    Unary{"selu", "scaled elu; keeps its input", Keeps::kInput, InPlace::kKeepsOutput, 6},
    Unary{"celu", "elu with a continuous derivative; keeps its input", Keeps::kInput,
          InPlace::kKeepsOutput, 6},
    Unary{"softplus", "log(1 + exp(x)); keeps its input", Keeps::kInput, InPlace::kNo, 6},
    Unary{"mish", "x tanh(softplus(x)); keeps its input", Keeps::kInput, InPlace::kClonesInput, 10,
          0, 0, true},
    Unary{"log", "keeps its input", Keeps::kInput, InPlace::kClonesInput, 4},
    Unary{"log2", "keeps its input", Keeps::kInput, InPlace::kClonesInput, 4, 1},
    Unary{"log10", "keeps its input", Keeps::kInput, InPlace::kClonesInput, 4, 1},
    Unary{"log1p", "log(1 + x); keeps its input", Keeps::kInput, InPlace::kClonesInput, 5, 1},
    Unary{"sin", "keeps its input", Keeps::kInput, InPlace::kClonesInput, 4, 1},
    Unary{"cos", "keeps its input", Keeps::kInput, InPlace::kClonesInput, 4, 2},
    Unary{"tan", "keeps its output", Keeps::kOutput, InPlace::kKeepsOutput, 6, 2},
    Unary{"asin", "keeps its input", Keeps::kInput, InPlace::kClonesInput, 4, 4},
    Unary{"acos", "keeps its input", Keeps::kInput, InPlace::kClonesInput, 4, 5},
    Unary{"atan", "keeps its input", Keeps::kInput, InPlace::kClonesInput, 4, 2},
    Unary{"sinh", "keeps its input", Keeps::kInput, InPlace::kClonesInput, 4, 1},
    Unary{"cosh", "keeps its input", Keeps::kInput, InPlace::kClonesInput, 4, 1},
    Unary{"asinh", "keeps its input", Keeps::kInput, InPlace::kClonesInput, 5, 3},
    Unary{"acosh", "keeps its input", Keeps::kInput, InPlace::kClonesInput, 5, 3},
    Unary{"atanh", "keeps its input", Keeps::kInput, InPlace::kClonesInput, 4, 3},
    Unary{"erf", "error function; keeps its input", Keeps::kInput, InPlace::kClonesInput, 8, 4},
    Unary{"abs", "keeps its input", Keeps::kInput, InPlace::kClonesInput, 1, 1},
    Unary{"pow", "x to a constant exponent; keeps its input", Keeps::kInput, InPlace::kClonesInput,
          4, 2},
    Unary{"clamp", "to an interval of constants; keeps its input", Keeps::kInput,
          InPlace::kClonesInput, 2, 0, 2},
    Unary{"neg", "keeps nothing", Keeps::kNothing, InPlace::kKeepsOutput, 1},
    Unary{"sign", "keeps nothing; its gradient is zero", Keeps::kNothing, InPlace::kKeepsOutput, 1},
    Unary{"floor", "keeps nothing; its gradient is zero", Keeps::kNothing, InPlace::kKeepsOutput,
          1},
    Unary{"ceil", "keeps nothing; its gradient is zero", Keeps::kNothing, InPlace::kKeepsOutput, 1},
    Unary{"round", "keeps nothing; its gradient is zero", Keeps::kNothing, InPlace::kKeepsOutput,
          1},
};

const Unary& unary_of(const NodeView& node) {
  return kUnaries.at(static_cast<std::size_t>(node.family_variant()));
}

// Functions that PyTorch computes in integers; others would convert them to floats.
bool takes_integers(std::string_view name) {
  return name == "clamp" || name == "neg" || name == "abs" || name == "sign";
}

void infer(Inference& inference) {
  const Tensor& x = inference.input(0);
  const auto variant = static_cast<std::size_t>(inference.family_variant());
  inference.require(is_floating(x.dtype) || takes_integers(kUnaries.at(variant).name),
                    [&] { return fmt::format("its input is {}", name_of(x.dtype)); });
  const std::string approximate = inference.attributes().text("approximate", "none");
  inference.require(approximate == "none" || approximate == "tanh", [&] {
    return fmt::format("approximate = '{}' is neither none nor tanh", approximate);
  });
  if (inference.attributes().flag("in_place")) {
    inference.in_place(0);
  } else {
    create_elementwise(inference, x.shape, x.dtype);
  }
}

void infer_out_of_place(Inference& inference) {
  inference.require(!inference.attributes().flag("in_place"), "has no form that works in place");
  infer(inference);
}

ForwardKernel forward(const NodeView& node) {
  return {.work = node.elementwise_work(OperatorClass::kElementwise, unary_of(node).flops)};
}

bool clones_input(const NodeView& node) {
  return node.is_in_place() && unary_of(node).in_place == InPlace::kClonesInput;
}

void save(SavedSet& saved) {
  const NodeView& node = saved.node();
  const Keeps keeps = unary_of(node).keeps;
  if (clones_input(node)) {
    const Tensor part = changed_part(node);
    saved.extra("input_clone", part.shape, part.dtype);
  } else if (keeps == Keeps::kOutput || (keeps == Keeps::kInput && node.is_in_place())) {
    saved.output();
  } else if (keeps == Keeps::kInput) {
    saved.input(0);
  }
}

void backward(BackwardBuilder& b) {
  const NodeView& node = b.node();
  const Unary& unary = unary_of(node);
  ChangedPart part(b);
  const Tensor& gradient = part.gradient();
  std::vector<Tensor> reads{gradient};
  if (clones_input(node)) {
    reads.push_back(b.saved("input_clone"));
  } else if (unary.keeps == Keeps::kOutput ||
             (unary.keeps == Keeps::kInput && node.is_in_place())) {
    reads.push_back(node.output());
  } else if (unary.keeps == Keeps::kInput) {
    reads.push_back(node.input(0));
  }
  Tensor result = create_dense(b, "input_gradient", gradient);
  if (unary.keeps_order && reads.back().shape == result.shape)
    result.strides = dense_strides(result.shape, reads.back().strides);
  // A clamp without one of its bounds compares once.
  const std::int64_t comparisons =
      std::min<std::int64_t>(unary.backward_masks, node.attributes().integer("bounds", 2));
  const Bytes masks = bytes_of(DType::kBool, Elements(comparisons * result.elements().count));
  // where(mask, grad, 0): on a CPU the zero is a tensor too.
  const Bytes filler =
      unary.backward_masks > 0 ? scalar_operand(node.rules(), result.dtype).converted : Bytes(0);
  Work work{.op_class = OperatorClass::kElementwise, .dtype = result.dtype};
  work.flops = flops_per(unary.flops + 1, result);
  for (const Tensor& tensor : reads)
    work.read += traffic(tensor);
  // Each temporary is written by one kernel and read by the next.
  work.read += result.bytes() * unary.backward_temporaries + masks;
  work.written = result.bytes() * (1 + unary.backward_temporaries) + masks;
  work.launches = 1 + unary.backward_temporaries + unary.backward_masks;
  const std::string name = std::string(unary.name) + ".backward";
  const BackwardBuilder::Kernel kernel{
      .name = name,
      .reads = reads,
      .creates = {result},
      .work = work,
      .temporary = result.bytes() * unary.backward_temporaries + masks + filler};
  if (unary.composite_backward && part.launch_inside(kernel, result)) return;
  b.launch(kernel);
  part.finish(result);
}

template <std::size_t... I>
constexpr auto families_of(std::index_sequence<I...> /*positions*/) {
  return std::array<OperatorFamily, sizeof...(I)>{
      OperatorFamily{.name = kUnaries[I].name,
                     .summary = kUnaries[I].summary,
                     .infer = kUnaries[I].in_place == InPlace::kNo ? infer_out_of_place : infer,
                     .forward = forward,
                     .save = save,
                     .backward = backward,
                     .variant = I}...};
}

constexpr auto kFamilies = families_of(std::make_index_sequence<kUnaries.size()>());

}  // namespace activation_family_detail

std::span<const OperatorFamily> activation_families() {
  return activation_family_detail::kFamilies;
}

}  // namespace tidemark
