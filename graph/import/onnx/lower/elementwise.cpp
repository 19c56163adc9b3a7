// Operators that work element by element.
#include <algorithm>

#include <fmt/format.h>

#include "graph/import/onnx/element_type.hpp"
#include "graph/import/onnx/onnx_lowering.hpp"

namespace tidemark {
namespace onnx_elementwise {

// The name of a family as a template argument.
template <std::size_t Length>
struct Family {
  char name[Length]{};
  // NOLINTNEXTLINE: a string literal as a template argument
  constexpr Family(const char (&literal)[Length]) { std::copy_n(literal, Length, name); }
};

// Lowers one operator to an activation, whatever the attributes.
template <Family kFamily>
void activation(OnnxLowering& l) {
  l.set(l.activation(kFamily.name, l.operand(0)));
}

// Lowers one operator to one of a family, whatever the attributes.
template <Family kFamily>
void unary(OnnxLowering& l) {
  l.set(l.builder().add(kFamily.name, {l.operand(0)}));
}

// A number beside a tensor is a Python scalar.
void lower_add(OnnxLowering& l) {
  ModelBuilder& b = l.builder();
  if (l.scalar(1)) return l.set(b.add("add_scalar", {l.operand(0)}));
  if (l.scalar(0)) return l.set(b.add("add_scalar", {l.operand(1)}));
  l.set(b.add_tensors(l.operand(0), l.operand(1)));
}

void lower_sub(OnnxLowering& l) {
  ModelBuilder& b = l.builder();
  if (l.scalar(1)) return l.set(b.add("add_scalar", {l.operand(0)}));
  // rsub makes one tensor, and its backward another, as the negation does.
  if (l.scalar(0)) return l.set(b.add("neg", {l.operand(1)}));
  l.set(b.add("sub", {l.operand(0), l.operand(1)}));
}

// The exporter writes alpha and beta of addmm and its kin as products with 1, which PyTorch does
// not compute.
void lower_mul(OnnxLowering& l) {
  ModelBuilder& b = l.builder();
  if (l.scalar(1) == 1.0) return l.set(l.operand(0));
  if (l.scalar(0) == 1.0) return l.set(l.operand(1));
  if (l.scalar(1)) return l.set(b.scale(l.operand(0)));
  if (l.scalar(0)) return l.set(b.scale(l.operand(1)));
  l.set(b.multiply(l.operand(0), l.operand(1)));
}

void lower_div(OnnxLowering& l) {
  ModelBuilder& b = l.builder();
  if (l.scalar(1)) return l.set(b.scale(l.operand(0)));
  // Python's number / tensor is tensor.reciprocal() * number.
  if (l.scalar(0)) return l.set(b.scale(b.add("reciprocal", {l.operand(1)})));
  l.set(b.add("div", {l.operand(0), l.operand(1)}));
}

// 1 / tensor is written without its product with 1, 1.0 / tensor with it; torch.reciprocal, which
// module code rarely calls by name, is written like the former.
void lower_reciprocal(OnnxLowering& l) {
  ModelBuilder& b = l.builder();
  const TensorId result = b.add("reciprocal", {l.operand(0)});
  const OnnxNodeId reader = l.uses().only_reader(l.node().outputs.front());
  bool scaled = false;
  if (reader.valid() && l.file().nodes[reader].op == "Mul") {
    for (OnnxValueId factor : l.file().nodes[reader].inputs)
      scaled = scaled || l.number(factor).value_or(1.0) != 1.0;
  }
  l.set(scaled ? result : b.scale(result));
}

void lower_pow(OnnxLowering& l) {
  const auto exponent = l.scalar(1);
  if (!exponent) {
    const TensorId base = l.scalar(0) ? TensorId() : l.operand(0);
    return l.set(l.builder().add("tensor_power", {base, l.operand(1)}));
  }
  l.set(l.builder().add("pow", {l.operand(0)}, {{"exponent", *exponent}}));
}

// Lowers an operator of two or more operands; a number bounds like clamp.
template <Family kFamily>
void lower_extremum(OnnxLowering& l) {
  if (l.scalar(1)) {
    return l.set(l.builder().add("clamp", {l.operand(0)}, {{"bounds", std::int64_t{1}}}));
  }
  TensorId result = l.operand(0);
  for (std::size_t i = 1; i < l.node().inputs.size(); ++i)
    result = l.builder().add(kFamily.name, {result, l.operand(i)});
  l.set(result);
}

void lower_clip(OnnxLowering& l) {
  const auto bound = [&](std::size_t operand, std::string_view attribute) -> std::optional<double> {
    if (l.has(operand)) return l.scalar(operand);
    if (const double* value = l.node().find<double>(attribute)) return *value;
    return std::nullopt;
  };
  const auto low = bound(1, "min");
  const auto high = bound(2, "max");
  const bool floating = is_floating(l.builder().tensor(l.operand(0)).dtype);
  std::string_view family = "clamp";
  if (floating && low == 0.0 && high == 6.0) family = "relu6";
  if (floating && low == -1.0 && high == 1.0) family = "hardtanh";
  const std::int64_t bounds = (low ? 1 : 0) + (high ? 1 : 0);
  if (family == "clamp")
    return l.set(l.builder().add(family, {l.operand(0)}, {{"bounds", bounds}}));
  l.set(l.activation(family, l.operand(0)));
}

// ONNX's Sum and Mean of any number of operands, and F.softsign: x / (|x| + 1).
TensorId sum_of_operands(OnnxLowering& l) {
  TensorId result = l.operand(0);
  for (std::size_t i = 1; i < l.node().inputs.size(); ++i)
    result = l.builder().add_tensors(result, l.operand(i));
  return result;
}

void lower_sum(OnnxLowering& l) {
  l.set(sum_of_operands(l));
}

void lower_mean(OnnxLowering& l) {
  l.set(l.builder().scale(sum_of_operands(l)));
}

void lower_softsign(OnnxLowering& l) {
  ModelBuilder& b = l.builder();
  const TensorId x = l.operand(0);
  l.set(b.add("div", {x, b.add("add_scalar", {b.add("abs", {x})})}));
}

void lower_gelu(OnnxLowering& l) {
  const std::string approximate = l.node().get<std::string>("approximate", "none");
  l.set(l.builder().add("gelu", {l.operand(0)}, {{"approximate", approximate}}));
}

// A slope per channel stands as [channels, 1, 1].
void lower_prelu(OnnxLowering& l) {
  TensorId slope = l.operand(1);
  const std::int64_t count = element_count(l.builder().shape(slope)).count;
  if (l.builder().shape(slope).rank() != 1) slope = l.builder().reshape(slope, {count});
  l.set(l.builder().add("prelu", {l.operand(0), slope}));
}

template <Family kFamily>
void lower_comparison(OnnxLowering& l) {
  if (l.scalar(1)) return l.set(l.builder().add(kFamily.name, {l.operand(0)}));
  if (l.scalar(0)) return l.set(l.builder().add(kFamily.name, {l.operand(1)}));
  l.set(l.builder().add(kFamily.name, {l.operand(0), l.operand(1)}));
}

// torch.isnan is x != x, torch.isinf |x| == infinity, inside one operator.
void lower_is_nan(OnnxLowering& l) {
  l.set(l.builder().add("ne", {l.operand(0), l.operand(0)}));
}
void lower_is_inf(OnnxLowering& l) {
  l.set(l.builder().add("eq", {l.operand(0)}));
}

// torch.fmod and remainder by a number pass the gradient on, as an addition does.
void lower_mod(OnnxLowering& l) {
  ModelBuilder& b = l.builder();
  if (l.scalar(1)) return l.set(b.add("add_scalar", {l.operand(0)}));
  if (b.tensor(l.operand(0)).requires_grad || b.tensor(l.operand(1)).requires_grad) {
    l.fail("the remainder by a tensor is simulated without gradients only");
  }
  l.set(b.add("sub", {l.operand(0), l.operand(1)}));
}

TensorId as_mask(OnnxLowering& l, TensorId x) {
  return l.builder().tensor(x).dtype == DType::kBool ? x : l.builder().cast(x, DType::kBool);
}

// masked_fill where the filled value is a number, else torch.where.
void lower_where(OnnxLowering& l) {
  ModelBuilder& b = l.builder();
  const TensorId mask = as_mask(l, l.operand(0));
  if (l.scalar(1) && !l.scalar(2)) return l.set(b.add("masked_fill", {l.operand(2), mask}));
  if (l.scalar(2)) return l.set(b.add("where", {mask, l.operand(1)}));
  l.set(b.add("where", {mask, l.operand(1), l.operand(2)}));
}

// Lowers Cast; nothing happens if the tensor has the type already.
void lower_cast(OnnxLowering& l) {
  const std::int64_t to = l.node().integer("to");
  const auto target = onnx_element_type(to);
  if (!target) l.fail(fmt::format("element type {} is not simulated", to));
  l.set(l.builder().cast(l.operand(0), is_floating(*target) ? l.model_type(*target) : *target));
}

void lower_cast_like(OnnxLowering& l) {
  l.set(l.builder().cast(l.operand(0), l.builder().tensor(l.operand(1)).dtype));
}

void lower_identity(OnnxLowering& l) {
  l.set(l.operand(0));
}

// A model exported for inference is trained here all the same, so the probability counts whatever
// training_mode says.
void lower_dropout(OnnxLowering& l) {
  double p = l.node().get<double>("ratio", 0.5);
  if (l.has(1)) {
    const auto ratio = l.scalar(1);
    if (!ratio) l.fail("its probability is computed from data");
    p = *ratio;
  }
  p = l.options().dropout.value_or(p);
  if (p == 0) return l.set(l.builder().dropout(l.operand(0), p));
  l.set(l.activation("dropout", l.operand(0), {{"p", p}}));
}

constexpr OnnxOperator kOperators[] = {
    {"Relu", activation<"relu">},
    {"Sigmoid", unary<"sigmoid">},
    {"Tanh", unary<"tanh">},
    {"Exp", unary<"exp">},
    {"Log", unary<"log">},
    {"Sqrt", unary<"sqrt">},
    {"Reciprocal", lower_reciprocal},
    {"Abs", unary<"abs">},
    {"Neg", unary<"neg">},
    {"Erf", unary<"erf">},
    {"Sin", unary<"sin">},
    {"Cos", unary<"cos">},
    {"Tan", unary<"tan">},
    {"Asin", unary<"asin">},
    {"Acos", unary<"acos">},
    {"Atan", unary<"atan">},
    {"Sinh", unary<"sinh">},
    {"Cosh", unary<"cosh">},
    {"Asinh", unary<"asinh">},
    {"Acosh", unary<"acosh">},
    {"Atanh", unary<"atanh">},
    {"Sign", unary<"sign">},
    {"Floor", unary<"floor">},
    {"Ceil", unary<"ceil">},
    {"Round", unary<"round">},
    {"LeakyRelu", activation<"leaky_relu">},
    {"Elu", activation<"elu">},
    {"Selu", activation<"selu">},
    {"Celu", activation<"celu">},
    {"Softplus", unary<"softplus">},
    {"Mish", activation<"mish">},
    {"HardSwish", activation<"hardswish">},
    {"HardSigmoid", activation<"hardsigmoid">},
    {"ThresholdedRelu", activation<"threshold">},
    {"Not", unary<"logical_not">},
    {"Add", lower_add},
    {"Sub", lower_sub},
    {"Mul", lower_mul},
    {"Div", lower_div},
    {"Pow", lower_pow},
    {"Max", lower_extremum<"maximum">},
    {"Min", lower_extremum<"minimum">},
    {"Clip", lower_clip},
    {"Sum", lower_sum},
    {"Mean", lower_mean},
    {"Softsign", lower_softsign},
    {"Gelu", lower_gelu},
    {"PRelu", lower_prelu},
    {"Equal", lower_comparison<"eq">},
    {"Less", lower_comparison<"lt">},
    {"LessOrEqual", lower_comparison<"le">},
    {"Greater", lower_comparison<"gt">},
    {"GreaterOrEqual", lower_comparison<"ge">},
    {"And", lower_comparison<"logical_and">},
    {"Or", lower_comparison<"logical_or">},
    {"Xor", lower_comparison<"logical_xor">},
    {"IsNaN", lower_is_nan},
    {"IsInf", lower_is_inf},
    {"Mod", lower_mod},
    {"Where", lower_where},
    {"Cast", lower_cast},
    {"CastLike", lower_cast_like},
    {"Identity", lower_identity},
    {"Dropout", lower_dropout},
};

}  // namespace onnx_elementwise

std::span<const OnnxOperator> onnx_elementwise_operators() {
  return onnx_elementwise::kOperators;
}

}  // namespace tidemark
