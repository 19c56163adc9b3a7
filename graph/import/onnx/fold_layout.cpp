// Evaluation of constants: operators that move elements or relabel them.
#include <algorithm>
#include <limits>
#include <numeric>

#include "graph/import/onnx/fold.hpp"
#include "graph/import/onnx/folding.hpp"

namespace tidemark {

using folding::count_of;
using folding::Dims;
using folding::kMaxFolded;

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

namespace folding {

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
  const auto count = static_cast<std::size_t>(c.elements().count);
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

std::optional<Dims> axes_of(const OnnxNode& node, Operands inputs, std::size_t index) {
  if (index < inputs.size() && inputs[index] != nullptr) {
    if (!inputs[index]->known) return std::nullopt;
    return inputs[index]->integers;
  }
  return node.list("axes");
}

namespace fold_layout_detail {
namespace {

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

}  // namespace
}  // namespace fold_layout_detail

Folded fold_concat(const OnnxNode& node, Operands inputs) {
  if (inputs.empty() || inputs[0] == nullptr) return std::nullopt;
  const auto axis = fold_layout_detail::checked_axis(node.integer("axis"), inputs[0]->dims.size());
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
    // Extents of 1 have step 0 above; in the result their elements are still `inner` apart.
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
    const auto axis = fold_layout_detail::checked_axis(
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
  return fold_layout_detail::gathered(x, dims, steps, start);
}

Folded fold_gather(const OnnxNode& node, const OnnxConstant& x, const OnnxConstant& index) {
  const auto axis = fold_layout_detail::checked_axis(node.integer("axis"), x.dims.size());
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
  const std::int64_t outer = extent == 0 ? 0 : x.elements().count / (inner * extent);
  std::size_t at = 0;
  for (std::int64_t o = 0; o < outer; ++o) {
    for (std::int64_t i = 0; i < index.elements().count; ++i) {
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
      return fold_layout_detail::checked_axis(axis, x.dims.size()) == static_cast<std::int64_t>(i);
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
    const auto at = fold_layout_detail::checked_axis(axis, rank);
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
  std::vector<char> named(x.dims.size(), 0);
  for (std::int64_t axis : permutation) {
    if (axis < 0 || axis >= static_cast<std::int64_t>(x.dims.size())) return std::nullopt;
    if (named[static_cast<std::size_t>(axis)]++ != 0) return std::nullopt;
    dims.push_back(x.dims[static_cast<std::size_t>(axis)]);
    steps.push_back(old[static_cast<std::size_t>(axis)]);
  }
  return fold_layout_detail::gathered(x, dims, steps);
}

Folded fold_expand(const OnnxConstant& x, const OnnxConstant& shape) {
  if (!shape.known) return std::nullopt;
  const auto dims = broadcast_dims(x.dims, shape.integers);
  if (!dims) return std::nullopt;
  return fold_layout_detail::gathered(x, *dims, steps_towards(x.dims, *dims));
}

Folded fold_tile(const OnnxConstant& x, const OnnxConstant& counts) {
  if (!counts.known || counts.integers.size() != x.dims.size()) return std::nullopt;
  Dims dims = x.dims;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    const std::int64_t count = counts.integers[i];
    if (count < 0 || (count > 0 && dims[i] > kMaxFolded / count)) return std::nullopt;
    dims[i] *= count;
  }
  return shaped(x.dtype, dims);
}

Folded fold_shape(const OnnxNode& node, const OnnxConstant& x) {
  const auto rank = static_cast<std::int64_t>(x.dims.size());
  const SliceRange range =
      slice_range(rank, node.integer("start", 0), node.integer("end", rank), 1);
  return integers_constant(
      Dims(x.dims.begin() + range.start, x.dims.begin() + range.start + range.count));
}

}  // namespace folding

}  // namespace tidemark
