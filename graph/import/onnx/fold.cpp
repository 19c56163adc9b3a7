// Evaluation of constants: arithmetic, comparisons, creation; the other half is fold_layout.cpp.
#include "graph/import/onnx/fold.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>

#include "graph/core/saturated.hpp"
#include "graph/import/onnx/element_type.hpp"
#include "graph/import/onnx/folding.hpp"

namespace tidemark {
namespace fold_detail {
namespace {

using namespace folding;  // NOLINT: this file is one half of it

// Numbers below this, of either sign, are integers of 64 bits.
constexpr double kIntegers = 9e18;

std::int64_t floor_modulo(std::int64_t a, std::int64_t b) {
  const std::int64_t rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

// Wraps like the arithmetic of the int64 kernels that is folded.
std::int64_t wrapped(std::string_view op, std::int64_t a, std::int64_t b) {
  const auto x = static_cast<std::uint64_t>(a);
  const auto y = static_cast<std::uint64_t>(b);
  return static_cast<std::int64_t>(op == "Add" ? x + y : op == "Sub" ? x - y : x * y);
}

double binary(const OnnxNode& node, double a, double b) {
  const std::string& op = node.op;
  if (op == "Add") return a + b;
  if (op == "Sub") return a - b;
  if (op == "Mul") return a * b;
  if (op == "Div") return a / b;
  if (op == "Pow") return std::pow(a, b);
  if (op == "Mod") return std::fmod(a, b);
  return op == "Min" ? std::min(a, b) : std::max(a, b);
}

// Returns nothing on a division by zero.
std::optional<std::int64_t> binary(const OnnxNode& node, std::int64_t a, std::int64_t b) {
  const std::string& op = node.op;
  if (op == "Add" || op == "Sub" || op == "Mul") return wrapped(op, a, b);
  if (op == "Pow") {
    const double power = std::pow(static_cast<double>(a), static_cast<double>(b));
    if (!(std::abs(power) < kIntegers)) return std::nullopt;
    return static_cast<std::int64_t>(power);
  }
  if (op == "Div" || op == "Mod") {
    if (b == 0 || (b == -1 && a == std::numeric_limits<std::int64_t>::min())) return std::nullopt;
    if (op == "Div") return a / b;
    return node.integer("fmod") != 0 ? a % b : floor_modulo(a, b);
  }
  return op == "Min" ? std::min(a, b) : std::max(a, b);
}

bool compare(std::string_view op, double a, double b) {
  if (op == "Equal") return a == b;
  if (op == "Less") return a < b;
  if (op == "LessOrEqual") return a <= b;
  if (op == "Greater") return a > b;
  if (op == "GreaterOrEqual") return a >= b;
  if (op == "And") return a != 0 && b != 0;
  if (op == "Or") return a != 0 || b != 0;
  return (a != 0) != (b != 0);  // Xor
}

constexpr std::array<std::string_view, 8> kArithmetic = {"Add", "Sub", "Mul", "Div",
                                                         "Pow", "Mod", "Min", "Max"};
constexpr std::array<std::string_view, 8> kComparisons = {
    "Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual", "And", "Or", "Xor"};
constexpr std::array<std::string_view, 13> kUnary = {"Neg", "Sqrt", "Floor", "Ceil",       "Round",
                                                     "Abs", "Exp",  "Log",   "Reciprocal", "Sin",
                                                     "Cos", "Not",  "Sign"};
constexpr std::array<std::string_view, 22> kOther = {
    "Constant",  "Cast",      "Identity", "Shape",     "Size",    "Concat",
    "Slice",     "Gather",    "Squeeze",  "Unsqueeze", "Reshape", "Flatten",
    "Transpose", "Expand",    "Tile",     "Range",     "Where",   "ConstantOfShape",
    "Trilu",     "ScatterND", "Clip",     "EyeLike"};
constexpr std::array<std::string_view, 5> kReductions = {"ReduceProd", "ReduceSum", "ReduceMax",
                                                         "ReduceMin", "ReduceMean"};

template <std::size_t N>
bool contains(const std::array<std::string_view, N>& words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

Folded fold_pair(const OnnxNode& node, const OnnxConstant& a, const OnnxConstant& b) {
  const bool compares = contains(kComparisons, node.op);
  const auto dims = broadcast_dims(a.dims, b.dims);
  if (!dims) return std::nullopt;
  Folded result = shaped(compares ? DType::kBool : a.dtype, *dims);
  if (!result || !a.known || !b.known || result->elements() > kKnownElements) return result;
  resize(*result);
  const Dims left = steps_towards(a.dims, *dims);
  const Dims right = steps_towards(b.dims, *dims);
  std::vector<std::size_t> other(static_cast<std::size_t>(result->elements().count));
  walk(*dims, right, 0, [&](std::size_t at, std::size_t offset) { other[at] = offset; });
  walk(*dims, left, 0, [&](std::size_t at, std::size_t offset) {
    if (compares) {
      result->integers[at] = compare(node.op, a.number(offset), b.number(other[at])) ? 1 : 0;
    } else if (is_floating(a.dtype)) {
      result->numbers[at] = binary(node, a.number(offset), b.number(other[at]));
    } else if (const auto value = binary(node, a.integer(offset), b.integer(other[at]))) {
      result->integers[at] = *value;
    } else {
      result->known = false;
    }
  });
  return result;
}

// Folds Min, Max and the other operators with any number of operands.
Folded fold_chain(const OnnxNode& node, Operands inputs) {
  if (inputs.empty() || inputs[0] == nullptr) return std::nullopt;
  Folded result = *inputs[0];
  for (std::size_t i = 1; result && i < inputs.size(); ++i) {
    if (inputs[i] == nullptr) return std::nullopt;
    result = fold_pair(node, *result, *inputs[i]);
  }
  return result;
}

double unary(std::string_view op, double x) {
  if (op == "Neg") return -x;
  if (op == "Sqrt") return std::sqrt(x);
  if (op == "Floor") return std::floor(x);
  if (op == "Ceil") return std::ceil(x);
  if (op == "Round") return std::nearbyint(x);
  if (op == "Abs") return std::abs(x);
  if (op == "Exp") return std::exp(x);
  if (op == "Log") return std::log(x);
  if (op == "Reciprocal") return 1 / x;
  if (op == "Sin") return std::sin(x);
  if (op == "Cos") return std::cos(x);
  if (op == "Sign") return x > 0 ? 1 : x < 0 ? -1 : 0;
  return x == 0 ? 1 : 0;  // Not
}

Folded fold_unary(const OnnxNode& node, const OnnxConstant& x) {
  Folded result = shaped(x.dtype, x.dims);
  if (!result || !x.known) return result;
  resize(*result);
  for (std::size_t i = 0; i < static_cast<std::size_t>(x.elements().count); ++i) {
    const double value = unary(node.op, x.number(i));
    if (is_floating(x.dtype)) {
      result->numbers[i] = value;
    } else {
      // A number that no int64 holds is left to the framework: its kernels do not agree.
      if (!(std::abs(value) < kIntegers)) result->known = false;
      result->integers[i] = saturated(value);
    }
  }
  return result;
}

// torch.eye: ones and zeros of the operand's shape, in a type of its own.
Folded fold_eye(const OnnxNode& node, const OnnxConstant& x) {
  const auto target = onnx_element_type(node.integer("dtype"));
  return shaped(target.value_or(x.dtype), x.dims);
}

Folded fold_cast(const OnnxNode& node, const OnnxConstant& x) {
  const auto target = onnx_element_type(node.integer("to"));
  if (!target) return std::nullopt;
  Folded result = shaped(*target, x.dims);
  if (!result || !x.known) return result;
  resize(*result);
  for (std::size_t i = 0; i < static_cast<std::size_t>(x.elements().count); ++i) {
    if (result->dtype == DType::kBool) {
      result->integers[i] = x.number(i) != 0 ? 1 : 0;
    } else if (!is_floating(result->dtype) && is_floating(x.dtype) &&
               !(std::abs(x.numbers[i]) < kIntegers)) {
      result->known = false;
    } else {
      copy_element(x, i, *result, i);
    }
  }
  return result;
}

Folded fold_range(Operands inputs) {
  if (inputs.size() != 3 || !all_known(inputs)) return std::nullopt;
  for (const OnnxConstant* operand : inputs) {
    if (operand == nullptr || operand->elements() != Elements(1)) return std::nullopt;
  }
  const double step = inputs[2]->number();
  if (step == 0) return std::nullopt;
  const double span = std::ceil((inputs[1]->number() - inputs[0]->number()) / step);
  if (!(span < static_cast<double>(kMaxFolded))) return std::nullopt;
  Folded result = shaped(inputs[0]->dtype, {static_cast<std::int64_t>(std::max(span, 0.0))});
  if (!result || result->elements() > kKnownElements) return result;
  resize(*result);
  for (std::size_t i = 0; i < static_cast<std::size_t>(result->elements().count); ++i) {
    if (is_floating(result->dtype)) {
      result->numbers[i] = inputs[0]->number() + static_cast<double>(i) * step;
    } else {
      const double value = inputs[0]->number() + static_cast<double>(i) * step;
      if (!(std::abs(value) < kIntegers)) return shaped(result->dtype, result->dims);
      // The value is an integer that there is, but the way to it may be longer: unsigned arithmetic
      // wraps there and back.
      result->integers[i] = static_cast<std::int64_t>(
          static_cast<std::uint64_t>(inputs[0]->integer()) +
          static_cast<std::uint64_t>(i) * static_cast<std::uint64_t>(inputs[2]->integer()));
    }
  }
  return result;
}

Folded fold_where(Operands inputs) {
  const auto pair = broadcast_dims(inputs[1]->dims, inputs[2]->dims);
  const auto dims = pair ? broadcast_dims(inputs[0]->dims, *pair) : std::nullopt;
  if (!dims) return std::nullopt;
  Folded result = shaped(inputs[1]->dtype, *dims);
  if (!result || !all_known(inputs) || result->elements() > kKnownElements) return result;
  resize(*result);
  std::vector<char> holds(static_cast<std::size_t>(result->elements().count));
  walk(*dims, steps_towards(inputs[0]->dims, *dims), 0, [&](std::size_t at, std::size_t offset) {
    holds[at] = inputs[0]->number(offset) != 0 ? 1 : 0;
  });
  for (const std::size_t branch : {std::size_t{1}, std::size_t{2}}) {
    walk(*dims, steps_towards(inputs[branch]->dims, *dims), 0,
         [&](std::size_t at, std::size_t offset) {
           if ((holds[at] != 0) == (branch == 1)) {
             copy_element(*inputs[branch], offset, *result, at);
           }
         });
  }
  return result;
}

Folded fold_constant_of_shape(const OnnxNode& node, const OnnxConstant& shape) {
  if (!shape.known) return std::nullopt;
  const OnnxConstant* value = node.find<OnnxConstant>("value");
  Folded result = shaped(value != nullptr ? value->dtype : DType::kFloat32, shape.integers);
  const bool usable = value == nullptr || (value->known && value->elements() == Elements(1));
  if (!result || result->elements() > kKnownElements || !usable) return result;
  resize(*result);
  for (std::size_t i = 0;
       value != nullptr && i < static_cast<std::size_t>(result->elements().count); ++i)
    copy_element(*value, 0, *result, i);
  return result;
}

Folded fold_reduction(const OnnxNode& node, Operands inputs) {
  const OnnxConstant& x = *inputs[0];
  const auto axes = axes_of(node, inputs, 1);
  const bool keep = node.integer("keepdims", 1) != 0;
  if (!axes || (!axes->empty() && !(axes->size() == 1 && x.dims.size() == 1))) return std::nullopt;
  Folded result = shaped(x.dtype, keep ? Dims(x.dims.size(), 1) : Dims{});
  if (!result || !x.known || x.elements() == Elements(0)) return result;
  resize(*result);
  double value = x.number(0);
  for (std::size_t i = 1; i < static_cast<std::size_t>(x.elements().count); ++i) {
    const double next = x.number(i);
    if (node.op == "ReduceProd") value *= next;
    if (node.op == "ReduceSum" || node.op == "ReduceMean") value += next;
    if (node.op == "ReduceMax") value = std::max(value, next);
    if (node.op == "ReduceMin") value = std::min(value, next);
  }
  if (node.op == "ReduceMean") value /= static_cast<double>(x.elements().count);
  OnnxConstant one{.dtype = DType::kFloat64, .numbers = {value}, .known = true};
  copy_element(one, 0, *result, 0);
  return result;
}

Folded fold_literal(const OnnxNode& node) {
  if (const auto* tensor = node.find<OnnxConstant>("value")) return *tensor;
  if (const auto* number = node.find<double>("value_float")) {
    return OnnxConstant{.dtype = DType::kFloat32, .numbers = {*number}, .known = true};
  }
  if (const auto* number = node.find<std::int64_t>("value_int")) {
    return OnnxConstant{.dtype = DType::kInt64, .integers = {*number}, .known = true};
  }
  if (const auto* numbers = node.find<Dims>("value_ints")) return integers_constant(*numbers);
  if (const auto* numbers = node.find<std::vector<double>>("value_floats")) {
    return OnnxConstant{.dtype = DType::kFloat32,
                        .dims = {static_cast<std::int64_t>(numbers->size())},
                        .numbers = *numbers,
                        .known = true};
  }
  return std::nullopt;
}

Folded fold_size(const OnnxConstant& x) {
  OnnxConstant count = integers_constant({x.elements().count});
  count.dims.clear();
  return count;
}

Folded fold_flatten(const OnnxNode& node, const OnnxConstant& x) {
  const auto axis = node.integer("axis", 1);
  std::int64_t rows = 1;
  for (std::size_t i = 0; i < x.dims.size() && static_cast<std::int64_t>(i) < axis; ++i)
    rows *= x.dims[i];
  return relabelled(x, reshaped_dims(x.dims, {rows, -1}, true));
}

Folded fold_reshape(const OnnxNode& node, const OnnxConstant& x, const OnnxConstant& shape) {
  if (!shape.known) return std::nullopt;
  return relabelled(x, reshaped_dims(x.dims, shape.integers, node.integer("allowzero") != 0));
}

// Folds the operators whose first two operands are both required.
Folded fold_two_operands(const OnnxNode& node, Operands inputs) {
  const std::string& op = node.op;
  const OnnxConstant& x = *inputs[0];
  const OnnxConstant& second = *inputs[1];
  if (op == "Gather") return fold_gather(node, x, second);
  if (op == "Reshape") return fold_reshape(node, x, second);
  if (op == "Expand") return fold_expand(x, second);
  if (op == "Tile") return fold_tile(x, second);
  if (op == "Where" && inputs.size() == 3 && inputs[2] != nullptr) return fold_where(inputs);
  return std::nullopt;
}

}  // namespace
}  // namespace fold_detail

OnnxConstant integers_constant(std::vector<std::int64_t> values) {
  const auto count = static_cast<std::int64_t>(values.size());
  return {.dtype = DType::kInt64, .dims = {count}, .integers = std::move(values), .known = true};
}

bool is_foldable(std::string_view op) {
  return fold_detail::contains(fold_detail::kOther, op) ||
         fold_detail::contains(fold_detail::kArithmetic, op) ||
         fold_detail::contains(fold_detail::kUnary, op) ||
         fold_detail::contains(fold_detail::kComparisons, op) ||
         fold_detail::contains(fold_detail::kReductions, op);
}

std::optional<OnnxConstant> fold(const OnnxNode& node, folding::Operands inputs) {
  using namespace folding;  // NOLINT: this file is one half of it
  using fold_detail::contains;
  const std::string& op = node.op;
  if (op == "Constant") return fold_detail::fold_literal(node);
  if (inputs.empty() || inputs[0] == nullptr) return std::nullopt;
  const OnnxConstant& x = *inputs[0];
  if (contains(fold_detail::kArithmetic, op) || contains(fold_detail::kComparisons, op))
    return fold_detail::fold_chain(node, inputs);
  if (contains(fold_detail::kUnary, op)) return fold_detail::fold_unary(node, x);
  if (contains(fold_detail::kReductions, op)) return fold_detail::fold_reduction(node, inputs);
  if (op == "Cast") return fold_detail::fold_cast(node, x);
  if (op == "Identity") return x;
  if (op == "Shape") return fold_shape(node, x);
  if (op == "Size") return fold_detail::fold_size(x);
  if (op == "Concat") return fold_concat(node, inputs);
  if (op == "Slice") return fold_slice(inputs);
  if (op == "Squeeze") return fold_squeeze(node, inputs);
  if (op == "Unsqueeze") return fold_unsqueeze(node, inputs);
  if (op == "Transpose") return fold_transpose(node, x);
  if (op == "Range") return fold_detail::fold_range(inputs);
  if (op == "ConstantOfShape") return fold_detail::fold_constant_of_shape(node, x);
  if (op == "Trilu" || op == "ScatterND" || op == "Clip") return shaped(x.dtype, x.dims);
  if (op == "EyeLike") return fold_detail::fold_eye(node, x);
  if (op == "Flatten") return fold_detail::fold_flatten(node, x);
  if (inputs.size() < 2 || inputs[1] == nullptr) return std::nullopt;
  return fold_detail::fold_two_operands(node, inputs);
}

}  // namespace tidemark
