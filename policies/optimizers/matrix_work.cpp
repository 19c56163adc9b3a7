#include "policies/optimizers/matrix_work.hpp"

#include <algorithm>

namespace tidemark {

MatrixSides matrix_sides(const Shape& shape) {
  if (shape.rank() == 0) return {};
  const std::int64_t rows = shape[0];
  const std::int64_t columns = element_count(shape).count / rows;
  return {.rows = rows,
          .columns = columns,
          .small = std::min(rows, columns),
          .large = std::max(rows, columns)};
}

Work elementwise_work(DType type, Elements elements, double flops, Bytes read, Bytes written,
                      int launches) {
  return {.op_class = OperatorClass::kOptimizer,
          .dtype = type,
          .flops = Flops(flops * static_cast<double>(elements.count)),
          .read = read,
          .written = written,
          .launches = launches};
}

Work decomposition_work(std::int64_t large, std::int64_t small) {
  const auto a = static_cast<double>(large);
  const auto b = static_cast<double>(small);
  const Bytes matrix = bytes_of(DType::kFloat32, Elements(large * small));
  return {.op_class = OperatorClass::kOptimizer,
          .dtype = DType::kFloat32,
          .flops = Flops(6 * a * b * b + 20 * b * b * b),
          .read = matrix,
          .written = matrix + bytes_of(DType::kFloat32, Elements(small * small))};
}

}  // namespace tidemark
