#include "graph/import/onnx/fold.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

namespace tidemark {
namespace {

using Dims = std::vector<std::int64_t>;
using Operands = std::span<const OnnxConstant* const>;
using Folded = std::optional<OnnxConstant>;

// A rank and a size beyond which nothing is folded: no tensor that a model makes is larger.
constexpr std::int64_t kMaxFolded = std::int64_t{1} << 40;

std::int64_t count_of(const Dims& dims) {
  std::int64_t count = 1;
  for (std::int64_t extent : dims) {
    if (extent < 0 || (extent > 0 && count > kMaxFolded / extent)) return -1;
    count *= extent;
  }
  return count;
}

Folded shaped(DType dtype, Dims dims) {
  if (count_of(dims) < 0) return std::nullopt;
  return OnnxConstant{.dtype = dtype, .dims = std::move(dims)};
}

void resize(OnnxConstant& c) {
  const auto count = static_cast<std::size_t>(c.elements());
  if (is_floating(c.dtype)) {
    c.numbers.resize(count);
  } else {
    c.integers.resize(count);
  }
  c.known = true;
}

void copy_element(const OnnxConstant& from, std::size_t source, OnnxConstant& to, std::size_t at) {
  if (is_floating(to.dtype)) {
    to.numbers[at] = from.number(source);
  } else {
    to.integers[at] = from.integer(source);
  }
}

bool all_known(Operands inputs) {
  return std::all_of(inputs.begin(), inputs.end(),
                     [](const OnnxConstant* c) { return c == nullptr || c->known; });
}

// Row-major steps of `dims`, 0 along axes that are broadcast to `target`.
Dims steps_towards(const Dims& dims, const Dims& target) {
  Dims steps(target.size(), 0);
  std::int64_t step = 1;
  for (std::size_t i = 1; i <= dims.size(); ++i) {
    const std::int64_t extent = dims[dims.size() - i];
    steps[target.size() - i] = extent == 1 ? 0 : step;
    step *= extent;
  }
  return steps;
}

// Calls `visit(position in the result, offset in the operand)` for a walk through `dims` in which
// each axis advances the operand by `steps`.
template <class Visit>
void walk(const Dims& dims, const Dims& steps, std::int64_t start, Visit visit) {
  const std::int64_t count = count_of(dims);
  Dims index(dims.size(), 0);
  std::int64_t offset = start;
  for (std::int64_t at = 0; at < count; ++at) {
    visit(static_cast<std::size_t>(at), static_cast<std::size_t>(offset));
    for (std::size_t axis = dims.size(); axis-- > 0;) {
      offset += steps[axis];
      if (++index[axis] < dims[axis]) break;
      offset -= steps[axis] * dims[axis];
      index[axis] = 0;
    }
  }
}

// A copy of `from` with `dims` whose axes advance by `steps` from element `start`.
Folded gathered(const OnnxConstant& from, Dims dims, const Dims& steps, std::int64_t start = 0) {
  Folded result = shaped(from.dtype, std::move(dims));
  if (!result || !from.known || result->elements() > kKnownElements) return result;
  resize(*result);
  walk(result->dims, steps, start,
       [&](std::size_t at, std::size_t offset) { copy_element(from, offset, *result, at); });
  return result;
}

std::optional<std::int64_t> checked_axis(std::int64_t axis, std::size_t rank) {
  const auto count = static_cast<std::int64_t>(rank);
  if (axis < -count || axis >= count) return std::nullopt;
  return axis < 0 ? axis + count : axis;
}

// Axes by an input (newer sets) or an attribute.
std::optional<Dims> axes_of(const OnnxNode& node, Operands inputs, std::size_t index) {
  if (index < inputs.size() && inputs[index] != nullptr) {
    if (!inputs[index]->known) return std::nullopt;
    return inputs[index]->integers;
  }
  return node.list("axes");
}

std::int64_t floor_modulo(std::int64_t a, std::int64_t b) {
  const std::int64_t rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

// Arithmetic wraps like the int64 kernels that it stands for.
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

// Nothing on a division by zero.
std::optional<std::int64_t> binary(const OnnxNode& node, std::int64_t a, std::int64_t b) {
  const std::string& op = node.op;
  if (op == "Add" || op == "Sub" || op == "Mul") return wrapped(op, a, b);
  if (op == "Pow") {
    const double power = std::pow(static_cast<double>(a), static_cast<double>(b));
    if (!(std::abs(power) < 9e18)) return std::nullopt;
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
constexpr std::array<std::string_view, 21> kOther = {
    "Constant", "Cast",    "Identity",  "Shape",           "Size",    "Concat",    "Slice",
    "Gather",   "Squeeze", "Unsqueeze", "Reshape",         "Flatten", "Transpose", "Expand",
    "Tile",     "Range",   "Where",     "ConstantOfShape", "Trilu",   "ScatterND", "Clip"};
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
  std::vector<std::size_t> other(static_cast<std::size_t>(result->elements()));
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

// Min, Max and the others of any number of operands.
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
  for (std::size_t i = 0; i < static_cast<std::size_t>(x.elements()); ++i) {
    const double value = unary(node.op, x.number(i));
    if (is_floating(x.dtype)) {
      result->numbers[i] = value;
    } else {
      result->integers[i] = static_cast<std::int64_t>(value);
    }
  }
  return result;
}

DType cast_target(std::int64_t onnx) {
  switch (onnx) {
    case 1:
      return DType::kFloat32;
    case 10:
      return DType::kFloat16;
    case 11:
      return DType::kFloat64;
    case 16:
      return DType::kBFloat16;
    case 9:
      return DType::kBool;
    case 6:
    case 12:
      return DType::kInt32;
    case 2:
    case 3:
      return DType::kInt8;
    default:
      return DType::kInt64;
  }
}

Folded fold_cast(const OnnxNode& node, const OnnxConstant& x) {
  Folded result = shaped(cast_target(node.integer("to", 7)), x.dims);
  if (!result || !x.known) return result;
  resize(*result);
  for (std::size_t i = 0; i < static_cast<std::size_t>(x.elements()); ++i) {
    if (result->dtype == DType::kBool) {
      result->integers[i] = x.number(i) != 0 ? 1 : 0;
    } else if (!is_floating(result->dtype) && is_floating(x.dtype) &&
               !(std::abs(x.numbers[i]) < 9e18)) {
      result->known = false;
    } else {
      copy_element(x, i, *result, i);
    }
  }
  return result;
}

Folded fold_concat(const OnnxNode& node, Operands inputs) {
  if (inputs.empty() || inputs[0] == nullptr) return std::nullopt;
  const auto axis = checked_axis(node.integer("axis"), inputs[0]->dims.size());
  if (!axis) return std::nullopt;
  const auto at_axis = static_cast<std::size_t>(*axis);
  Dims dims = inputs[0]->dims;
  dims[at_axis] = 0;
  for (const OnnxConstant* part : inputs) {
    if (part == nullptr || part->dims.size() != dims.size()) return std::nullopt;
    dims[at_axis] += part->dims[at_axis];
  }
  Folded result = shaped(inputs[0]->dtype, dims);
  if (!result || !all_known(inputs) || result->elements() > kKnownElements) return result;
  resize(*result);
  const Dims steps = steps_towards(dims, dims);
  std::int64_t inner = 1;
  for (std::size_t i = at_axis + 1; i < dims.size(); ++i)
    inner *= dims[i];
  std::int64_t start = 0;
  for (const OnnxConstant* part : inputs) {
    // Extents of 1 have step 0 above; in the result they still lie `inner` apart.
    Dims into = steps;
    into[at_axis] = inner;
    walk(part->dims, into, start,
         [&](std::size_t at, std::size_t offset) { copy_element(*part, at, *result, offset); });
    start += part->dims[at_axis] * inner;
  }
  return result;
}

Folded fold_slice(Operands inputs) {
  const OnnxConstant& x = *inputs[0];
  const auto operand = [&](std::size_t index) -> const OnnxConstant* {
    return index < inputs.size() ? inputs[index] : nullptr;
  };
  if (operand(1) == nullptr || operand(2) == nullptr || !all_known(inputs.subspan(1))) {
    return std::nullopt;
  }
  const std::size_t sliced = operand(1)->integers.size();
  for (const OnnxConstant* other : inputs.subspan(2)) {
    if (other != nullptr && other->integers.size() != sliced) return std::nullopt;
  }
  Dims dims = x.dims;
  Dims steps = steps_towards(x.dims, x.dims);
  std::int64_t start = 0;
  for (std::size_t i = 0; i < sliced; ++i) {
    const auto axis = checked_axis(
        operand(3) != nullptr ? operand(3)->integer(i) : static_cast<std::int64_t>(i), dims.size());
    if (!axis) return std::nullopt;
    const std::int64_t step = operand(4) != nullptr ? operand(4)->integer(i) : 1;
    if (step == 0) return std::nullopt;
    const auto at = static_cast<std::size_t>(*axis);
    const SliceRange range =
        slice_range(dims[at], operand(1)->integer(i), operand(2)->integer(i), step);
    start += range.start * steps[at];
    dims[at] = range.count;
    steps[at] *= range.step;
  }
  return gathered(x, dims, steps, start);
}

Folded fold_gather(const OnnxNode& node, const OnnxConstant& x, const OnnxConstant& index) {
  const auto axis = checked_axis(node.integer("axis"), x.dims.size());
  if (!axis) return std::nullopt;
  const auto at_axis = static_cast<std::size_t>(*axis);
  const auto split = x.dims.begin() + *axis;
  Dims dims(x.dims.begin(), split);
  dims.insert(dims.end(), index.dims.begin(), index.dims.end());
  dims.insert(dims.end(), split + 1, x.dims.end());
  Folded result = shaped(x.dtype, dims);
  if (!result || !x.known || !index.known || result->elements() > kKnownElements) return result;
  resize(*result);
  std::int64_t inner = 1;
  for (std::size_t i = at_axis + 1; i < x.dims.size(); ++i)
    inner *= x.dims[i];
  const std::int64_t extent = x.dims[at_axis];
  const std::int64_t outer = extent == 0 ? 0 : x.elements() / (inner * extent);
  std::size_t at = 0;
  for (std::int64_t o = 0; o < outer; ++o) {
    for (std::int64_t i = 0; i < index.elements(); ++i) {
      std::int64_t row = index.integer(static_cast<std::size_t>(i));
      if (row < 0) row += extent;
      if (row < 0 || row >= extent) return std::nullopt;
      for (std::int64_t j = 0; j < inner; ++j) {
        copy_element(x, static_cast<std::size_t>((o * extent + row) * inner + j), *result, at++);
      }
    }
  }
  return result;
}

Folded relabelled(const OnnxConstant& x, const std::optional<Dims>& dims) {
  if (!dims) return std::nullopt;
  OnnxConstant result = x;
  result.dims = *dims;
  return result;
}

Folded fold_squeeze(const OnnxNode& node, Operands inputs) {
  const OnnxConstant& x = *inputs[0];
  const auto axes = axes_of(node, inputs, 1);
  if (!axes) return std::nullopt;
  Dims dims;
  for (std::size_t i = 0; i < x.dims.size(); ++i) {
    const bool named = std::any_of(axes->begin(), axes->end(), [&](std::int64_t axis) {
      return checked_axis(axis, x.dims.size()) == static_cast<std::int64_t>(i);
    });
    if (named ? x.dims[i] != 1 : (!axes->empty() || x.dims[i] != 1)) dims.push_back(x.dims[i]);
  }
  return relabelled(x, dims);
}

Folded fold_unsqueeze(const OnnxNode& node, Operands inputs) {
  const OnnxConstant& x = *inputs[0];
  const auto axes = axes_of(node, inputs, 1);
  if (!axes) return std::nullopt;
  const std::size_t rank = x.dims.size() + axes->size();
  std::vector<char> added(rank, 0);
  for (std::int64_t axis : *axes) {
    const auto at = checked_axis(axis, rank);
    if (!at) return std::nullopt;
    added[static_cast<std::size_t>(*at)] = 1;
  }
  Dims dims;
  std::size_t from = 0;
  for (std::size_t i = 0; i < rank; ++i) {
    if (added[i] == 0 && from >= x.dims.size()) return std::nullopt;
    dims.push_back(added[i] != 0 ? 1 : x.dims[from++]);
  }
  return relabelled(x, dims);
}

Folded fold_transpose(const OnnxNode& node, const OnnxConstant& x) {
  Dims permutation = node.list("perm");
  if (permutation.empty()) {
    permutation.resize(x.dims.size());
    std::iota(permutation.rbegin(), permutation.rend(), 0);
  }
  if (permutation.size() != x.dims.size()) return std::nullopt;
  const Dims old = steps_towards(x.dims, x.dims);
  Dims dims;
  Dims steps;
  for (std::int64_t axis : permutation) {
    if (axis < 0 || axis >= static_cast<std::int64_t>(x.dims.size())) return std::nullopt;
    dims.push_back(x.dims[static_cast<std::size_t>(axis)]);
    steps.push_back(old[static_cast<std::size_t>(axis)]);
  }
  return gathered(x, dims, steps);
}

Folded fold_range(Operands inputs) {
  if (inputs.size() != 3 || !all_known(inputs)) return std::nullopt;
  for (const OnnxConstant* operand : inputs) {
    if (operand == nullptr || operand->elements() != 1) return std::nullopt;
  }
  const double step = inputs[2]->number();
  if (step == 0) return std::nullopt;
  const double span = std::ceil((inputs[1]->number() - inputs[0]->number()) / step);
  if (!(span < static_cast<double>(kMaxFolded))) return std::nullopt;
  Folded result = shaped(inputs[0]->dtype, {static_cast<std::int64_t>(std::max(span, 0.0))});
  if (!result || result->elements() > kKnownElements) return result;
  resize(*result);
  for (std::size_t i = 0; i < static_cast<std::size_t>(result->elements()); ++i) {
    if (is_floating(result->dtype)) {
      result->numbers[i] = inputs[0]->number() + static_cast<double>(i) * step;
    } else {
      result->integers[i] =
          inputs[0]->integer() + static_cast<std::int64_t>(i) * inputs[2]->integer();
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
  std::vector<char> holds(static_cast<std::size_t>(result->elements()));
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

Folded fold_expand(const OnnxConstant& x, const OnnxConstant& shape) {
  if (!shape.known) return std::nullopt;
  const auto dims = broadcast_dims(x.dims, shape.integers);
  if (!dims) return std::nullopt;
  return gathered(x, *dims, steps_towards(x.dims, *dims));
}

Folded fold_tile(const OnnxConstant& x, const OnnxConstant& counts) {
  if (!counts.known || counts.integers.size() != x.dims.size()) return std::nullopt;
  Dims dims = x.dims;
  for (std::size_t i = 0; i < dims.size(); ++i)
    dims[i] *= counts.integers[i];
  return shaped(x.dtype, dims);
}

Folded fold_constant_of_shape(const OnnxNode& node, const OnnxConstant& shape) {
  if (!shape.known) return std::nullopt;
  const OnnxConstant* value = node.find<OnnxConstant>("value");
  Folded result = shaped(value != nullptr ? value->dtype : DType::kFloat32, shape.integers);
  const bool usable = value == nullptr || (value->known && value->elements() == 1);
  if (!result || result->elements() > kKnownElements || !usable) return result;
  resize(*result);
  for (std::size_t i = 0; value != nullptr && i < static_cast<std::size_t>(result->elements()); ++i)
    copy_element(*value, 0, *result, i);
  return result;
}

Folded fold_reduction(const OnnxNode& node, Operands inputs) {
  const OnnxConstant& x = *inputs[0];
  const auto axes = axes_of(node, inputs, 1);
  const bool keep = node.integer("keepdims", 1) != 0;
  if (!axes || (!axes->empty() && !(axes->size() == 1 && x.dims.size() == 1))) return std::nullopt;
  Folded result = shaped(x.dtype, keep ? Dims(x.dims.size(), 1) : Dims{});
  if (!result || !x.known || x.elements() == 0) return result;
  resize(*result);
  double value = x.number(0);
  for (std::size_t i = 1; i < static_cast<std::size_t>(x.elements()); ++i) {
    const double next = x.number(i);
    if (node.op == "ReduceProd") value *= next;
    if (node.op == "ReduceSum" || node.op == "ReduceMean") value += next;
    if (node.op == "ReduceMax") value = std::max(value, next);
    if (node.op == "ReduceMin") value = std::min(value, next);
  }
  if (node.op == "ReduceMean") value /= static_cast<double>(x.elements());
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

Folded fold_shape(const OnnxNode& node, const OnnxConstant& x) {
  const auto rank = static_cast<std::int64_t>(x.dims.size());
  const SliceRange range =
      slice_range(rank, node.integer("start", 0), node.integer("end", rank), 1);
  return integers_constant(
      Dims(x.dims.begin() + range.start, x.dims.begin() + range.start + range.count));
}

}  // namespace

OnnxConstant integers_constant(std::vector<std::int64_t> values) {
  return {.dtype = DType::kInt64,
          .dims = {static_cast<std::int64_t>(values.size())},
          .integers = std::move(values),
          .known = true};
}

std::optional<Dims> broadcast_dims(const Dims& a, const Dims& b) {
  Dims result = a.size() >= b.size() ? a : b;
  const Dims& shorter = a.size() >= b.size() ? b : a;
  for (std::size_t i = 1; i <= shorter.size(); ++i) {
    std::int64_t& extent = result[result.size() - i];
    const std::int64_t other = shorter[shorter.size() - i];
    if (extent != other && extent != 1 && other != 1) return std::nullopt;
    if (extent == 1) extent = other;
  }
  return result;
}

std::optional<Dims> reshaped_dims(const Dims& dims, const Dims& wanted, bool allow_zero) {
  Dims result = wanted;
  std::int64_t known = 1;
  std::optional<std::size_t> open;
  for (std::size_t i = 0; i < result.size(); ++i) {
    if (result[i] == 0 && !allow_zero) {
      if (i >= dims.size()) return std::nullopt;
      result[i] = dims[i];
    }
    if (result[i] < -1 || (result[i] == -1 && open)) return std::nullopt;
    if (result[i] == -1) {
      open = i;
    } else {
      if (result[i] > 0 && known > kMaxFolded / result[i]) return std::nullopt;
      known *= result[i];
    }
  }
  const std::int64_t count = count_of(dims);
  if (open) {
    if (known == 0 || count % known != 0) return std::nullopt;
    result[*open] = count / known;
  } else if (known != count) {
    return std::nullopt;
  }
  return result;
}

SliceRange slice_range(std::int64_t extent, std::int64_t start, std::int64_t end,
                       std::int64_t step) {
  const std::int64_t low = step > 0 ? 0 : -1;
  const std::int64_t high = step > 0 ? extent : extent - 1;
  const auto clamped = [&](std::int64_t at) {
    if (at < 0) at = at < -extent ? low - extent : at;
    if (at < 0) at += extent;
    return std::clamp(at, low, std::max(low, high));
  };
  const std::int64_t first = clamped(start);
  const std::int64_t last = clamped(end);
  const std::int64_t span = step > 0 ? last - first : first - last;
  const std::int64_t stride = step > 0 ? step
                                       : (step == std::numeric_limits<std::int64_t>::min()
                                              ? std::numeric_limits<std::int64_t>::max()
                                              : -step);
  return {.start = first, .step = step, .count = span <= 0 ? 0 : (span - 1) / stride + 1};
}

bool is_foldable(std::string_view op) {
  return contains(kOther, op) || contains(kArithmetic, op) || contains(kUnary, op) ||
         contains(kComparisons, op) || contains(kReductions, op);
}

std::optional<OnnxConstant> fold(const OnnxNode& node, Operands inputs) {
  const std::string& op = node.op;
  if (op == "Constant") return fold_literal(node);
  if (inputs.empty() || inputs[0] == nullptr) return std::nullopt;
  const OnnxConstant& x = *inputs[0];
  const bool second = inputs.size() > 1 && inputs[1] != nullptr;
  if (contains(kArithmetic, op) || contains(kComparisons, op)) return fold_chain(node, inputs);
  if (contains(kUnary, op)) return fold_unary(node, x);
  if (contains(kReductions, op)) return fold_reduction(node, inputs);
  if (op == "Cast") return fold_cast(node, x);
  if (op == "Identity") return x;
  if (op == "Shape") return fold_shape(node, x);
  if (op == "Size") {
    OnnxConstant count = integers_constant({x.elements()});
    count.dims.clear();
    return count;
  }
  if (op == "Concat") return fold_concat(node, inputs);
  if (op == "Slice") return fold_slice(inputs);
  if (op == "Squeeze") return fold_squeeze(node, inputs);
  if (op == "Unsqueeze") return fold_unsqueeze(node, inputs);
  if (op == "Transpose") return fold_transpose(node, x);
  if (op == "Range") return fold_range(inputs);
  if (op == "ConstantOfShape") return fold_constant_of_shape(node, x);
  if (op == "Trilu" || op == "ScatterND" || op == "Clip") return shaped(x.dtype, x.dims);
  if (op == "Flatten") {
    const auto axis = node.integer("axis", 1);
    std::int64_t rows = 1;
    for (std::size_t i = 0; i < x.dims.size() && static_cast<std::int64_t>(i) < axis; ++i)
      rows *= x.dims[i];
    return relabelled(x, reshaped_dims(x.dims, {rows, -1}, true));
  }
  if (!second) return std::nullopt;
  if (op == "Gather") return fold_gather(node, x, *inputs[1]);
  if (op == "Reshape") {
    if (!inputs[1]->known) return std::nullopt;
    return relabelled(x,
                      reshaped_dims(x.dims, inputs[1]->integers, node.integer("allowzero") != 0));
  }
  if (op == "Expand") return fold_expand(x, *inputs[1]);
  if (op == "Tile") return fold_tile(x, *inputs[1]);
  if (op == "Where" && inputs.size() == 3 && inputs[2] != nullptr) return fold_where(inputs);
  return std::nullopt;
}

}  // namespace tidemark
