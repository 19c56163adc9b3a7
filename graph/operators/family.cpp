#include "graph/operators/family.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace tidemark {

Shape broadcast_shapes(const Inference& inference, const Shape& a, const Shape& b) {
  const Shape& longer = a.rank() >= b.rank() ? a : b;
  const Shape& shorter = a.rank() >= b.rank() ? b : a;
  Shape result = longer;
  for (int i = 1; i <= shorter.rank(); ++i) {
    const std::int64_t x = longer[-i];
    const std::int64_t y = shorter[-i];
    inference.require(x == y || x == 1 || y == 1, [&] {
      return fmt::format("shapes {} and {} do not broadcast: {} and {} differ at axis -{}",
                         to_string(a), to_string(b), x, y, i);
    });
    result[-i] = std::max(x, y);
  }
  return result;
}

DType promote(DType a, DType b) {
  if (a == b) return a;
  if (bits_of(a) != bits_of(b)) return bits_of(a) > bits_of(b) ? a : b;
  return DType::kFloat32;  // fp16 with bf16
}

DType result_type(const Tensor& a, const Tensor& b) {
  if (is_floating(a.dtype) != is_floating(b.dtype)) return is_floating(a.dtype) ? a.dtype : b.dtype;
  const bool one_has_no_axes = (a.shape.rank() == 0) != (b.shape.rank() == 0);
  if (one_has_no_axes) return a.shape.rank() == 0 ? b.dtype : a.dtype;
  return promote(a.dtype, b.dtype);
}

}  // namespace tidemark
