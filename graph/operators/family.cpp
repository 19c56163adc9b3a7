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

}  // namespace tidemark
