#include "graph/ir/tensor.hpp"

#include <fmt/format.h>

#include "graph/core/errors.hpp"

namespace tidemark {

Elements element_count(const Shape& shape) {
  std::int64_t count = 1;
  for (std::int64_t extent : shape) {
    if (!checked_multiply(count, extent, count) || count > (std::int64_t{1} << 60)) {
      throw UserError(fmt::format("a tensor of shape {} has more elements than any device can hold",
                                  to_string(shape)));
    }
  }
  return Elements(count);
}

Strides contiguous_strides(const Shape& shape) {
  static_cast<void>(element_count(shape));  // rejects shapes whose strides would overflow
  Strides strides = shape;
  std::int64_t step = 1;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    strides[axis] = step;
    step *= shape[axis];
  }
  return strides;
}

Strides channels_last_strides(const Shape& shape) {
  Strides strides = contiguous_strides(shape);
  if (shape.rank() < 4) return strides;
  std::int64_t step = shape[1];
  for (int axis = shape.rank() - 1; axis >= 2; --axis) {
    strides[axis] = step;
    step *= shape[axis];
  }
  strides[1] = 1;
  return strides;
}

bool Tensor::is_channels_last() const {
  return shape.rank() >= 4 && shape[1] > 1 && strides[1] == 1 && !is_contiguous();
}

std::string to_string(const Shape& shape) {
  return fmt::format("[{}]", fmt::join(shape.begin(), shape.end(), ", "));
}

bool Tensor::is_contiguous() const {
  std::int64_t expected = 1;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    if (shape[axis] == 1) continue;
    if (strides[axis] != expected) return false;
    expected *= shape[axis];
  }
  return true;
}

// Axes that follow each other without a gap form a chunk; the target's axes must tile each chunk:
//   shape [2, 3, 4], strides [12, 4, 1] is one chunk of 24 elements with step 1
//   shape [2, 4, 3], strides [12, 1, 4] is the chunks {2, step 12}, {4, step 1}, {3, step 4}
bool view_strides(const Shape& shape, const Strides& strides, const Shape& target,
                  Strides& result) {
  result = target;
  int to = target.rank() - 1;
  if (shape.rank() == 0) {
    for (int axis = 0; axis < target.rank(); ++axis)
      result[axis] = 1;
    return true;
  }
  std::int64_t step = strides[-1];
  std::int64_t chunk = 1;
  std::int64_t tiled = 1;
  for (int from = shape.rank() - 1; from >= 0; --from) {
    chunk *= shape[from];
    const bool ends_chunk =
        from == 0 || (shape[from - 1] != 1 && strides[from - 1] != chunk * step);
    if (!ends_chunk) continue;
    while (to >= 0 && (tiled < chunk || target[to] == 1)) {
      result[to] = tiled * step;
      tiled *= target[to];
      --to;
    }
    if (tiled != chunk) return false;
    if (from > 0) {
      step = strides[from - 1];
      chunk = 1;
      tiled = 1;
    }
  }
  return to < 0;
}

}  // namespace tidemark
