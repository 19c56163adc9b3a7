#include "policies/optimizers/newton_schulz.hpp"

#include <algorithm>
#include <cstdint>

namespace tidemark {
namespace newton_schulz_detail {
namespace {

constexpr std::int64_t kNewtonSchulzSteps = 5;  // Muon, ns_steps

struct Matrix {
  std::int64_t small;
  std::int64_t large;
};

Matrix matrix_of(const Shape& shape) {
  const std::int64_t rows = shape[0];
  const std::int64_t columns = element_count(shape).count / rows;
  return {.small = std::min(rows, columns), .large = std::max(rows, columns)};
}

}  // namespace
}  // namespace newton_schulz_detail

Bytes newton_schulz_bytes(const Shape& shape) {
  const auto [small, large] = newton_schulz_detail::matrix_of(shape);
  return bytes_of(DType::kBFloat16, Elements(4 * small * large + 2 * small * small));
}

// Counts the products X X^T, A A and B X.
Flops newton_schulz_flops(const Shape& shape) {
  const auto [small, large] = newton_schulz_detail::matrix_of(shape);
  const auto m = static_cast<double>(small);
  const auto n = static_cast<double>(large);
  return Flops(static_cast<double>(newton_schulz_detail::kNewtonSchulzSteps) *
               (4 * m * m * n + 2 * m * m * m));
}

}  // namespace tidemark
