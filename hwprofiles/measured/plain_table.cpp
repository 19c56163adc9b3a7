// Our own table: op,shape,dtype,device,seconds.
#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "graph/core/errors.hpp"
#include "hwprofiles/measured/operator_tables.hpp"
#include "hwprofiles/measured/operator_work.hpp"
#include "hwprofiles/measured/row_reader.hpp"

namespace tidemark {
namespace plain_table_detail {
namespace {

constexpr auto kColumns =
    std::to_array<std::string_view>({"op", "shape", "dtype", "device", "seconds"});

// PyTorch's names of types, and ours.
struct TypeName {
  std::string_view name;
  DType type;
};
constexpr auto kTypes = std::to_array<TypeName>({{"fp64", DType::kFloat64},
                                                 {"float64", DType::kFloat64},
                                                 {"fp32", DType::kFloat32},
                                                 {"float32", DType::kFloat32},
                                                 {"float", DType::kFloat32},
                                                 {"tf32", DType::kTf32},
                                                 {"fp16", DType::kFloat16},
                                                 {"float16", DType::kFloat16},
                                                 {"half", DType::kFloat16},
                                                 {"bf16", DType::kBFloat16},
                                                 {"bfloat16", DType::kBFloat16},
                                                 {"fp8", DType::kFloat8},
                                                 {"int8", DType::kInt8}});

DType type_called(const std::string& name) {
  for (const TypeName& known : kTypes) {
    if (known.name == name) return known.type;
  }
  throw RowFault{fmt::format("dtype: unknown type {}", quoted_excerpt(name))};
}

std::int64_t extent_in(std::string_view text, const std::string& shape) {
  const auto number = number_in(text);
  if (!number || !(*number >= 0) || *number > 1e12) {
    throw RowFault{
        fmt::format("shape: {} is no extent in {}", quoted_excerpt(text), quoted_excerpt(shape))};
  }
  return static_cast<std::int64_t>(*number);
}

// No operator has as many elements, multiplications or bits of operands: products stay in 63 bits.
constexpr double kMostWork = 1e16;
constexpr double kMostElements = 1e13;       // of an operand of a convolution
constexpr std::int64_t kMostStep = 1 << 20;  // stride, padding

// Splits "4096x16x2048". Throws RowFault unless there are `least` to `most` extents of at least 1,
// whose product is no larger than kMostWork.
std::vector<std::int64_t> extents(std::string_view text, std::size_t least, std::size_t most) {
  const std::string shape(text);
  std::vector<std::int64_t> found;
  for (std::size_t begin = 0; begin <= shape.size();) {
    const std::size_t end = std::min(shape.find('x', begin), shape.size());
    found.push_back(extent_in(std::string_view(shape).substr(begin, end - begin), shape));
    if (found.back() < 1)
      throw RowFault{fmt::format("shape: an extent of {} is 0", quoted_excerpt(shape))};
    begin = end + 1;
  }
  if (found.size() < least || found.size() > most) {
    throw RowFault{fmt::format("shape: expected {} extents like 4096x1024, found {}", least,
                               quoted_excerpt(shape))};
  }
  double product = 1;
  for (const std::int64_t extent : found)
    product *= static_cast<double>(extent);
  if (product > kMostWork)
    throw RowFault{fmt::format("shape: {} is larger than any device", quoted_excerpt(shape))};
  return found;
}

// "32x64x56x56,128x3x3,1,1,1": input, filters, and perhaps stride, padding and groups.
ConvolutionShape convolution_of(const std::string& text) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == ',' || c == ';' || c == ' ') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  std::erase(parts, "");
  if (parts.size() < 2)
    throw RowFault{fmt::format("shape: expected NxCxHxW,KxRxS, found {}", quoted_excerpt(text))};
  const std::vector<std::int64_t> input = extents(parts[0], 4, 4);
  const std::vector<std::int64_t> filters = extents(parts[1], 3, 3);
  const auto option = [&](std::size_t place, std::int64_t usual) {
    return parts.size() > place ? extent_in(parts[place], text) : usual;
  };
  const std::int64_t stride = option(2, 1);
  const std::int64_t padding = option(3, 0);
  const std::int64_t groups = option(4, 1);
  if (stride < 1 || groups < 1 || input[1] % groups != 0 || filters[0] % groups != 0 ||
      stride > kMostStep || padding > kMostStep || input[2] + 2 * padding < filters[1] ||
      input[3] + 2 * padding < filters[2]) {
    throw RowFault{fmt::format("shape: {} is no convolution", quoted_excerpt(text))};
  }
  const auto real = [](std::int64_t count) { return static_cast<double>(count); };
  const double places = real(input[2] + 2 * padding) * real(input[3] + 2 * padding);
  const double filter_elements =
      real(filters[0]) * real(input[1]) * real(filters[1]) * real(filters[2]);
  if (real(input[0]) * real(std::max(input[1], filters[0])) * places > kMostElements ||
      filter_elements > kMostElements) {
    throw RowFault{fmt::format("shape: {} is larger than any device", quoted_excerpt(text))};
  }
  return {.batch = input[0],
          .channels = input[1],
          .filters = filters[0],
          .input_places = input[2] * input[3],
          .output_places = ((input[2] + 2 * padding - filters[1]) / stride + 1) *
                           ((input[3] + 2 * padding - filters[2]) / stride + 1),
          .window = filters[1] * filters[2],
          .stride = stride * stride,
          .groups = groups,
          .square = filters[1] == filters[2]};
}

struct RowsOf {
  std::string_view op;
  OperatorClass op_class;
};
// Operators whose input is read once and whose output is written once.
constexpr auto kStreams = std::to_array<RowsOf>({{"softmax", OperatorClass::kSoftmax},
                                                 {"layer_norm", OperatorClass::kNormalization},
                                                 {"batch_norm", OperatorClass::kNormalization},
                                                 {"gelu", OperatorClass::kElementwise},
                                                 {"relu", OperatorClass::kElementwise},
                                                 {"copy", OperatorClass::kElementwise}});
constexpr auto kConvolutions =
    std::to_array<RowsOf>({{"conv", OperatorClass::kConvolution},
                           {"conv_backward_data", OperatorClass::kConvolutionBackwardData},
                           {"conv_backward_weight", OperatorClass::kConvolutionBackwardWeight}});

Work stream_work(OperatorClass op_class, DType type, const std::string& shape, int inputs) {
  std::int64_t elements = 1;
  for (const std::int64_t extent : extents(shape, 1, 5))
    elements *= extent;
  Work work = traffic_work(type, op_class, Elements(inputs * elements), Elements(elements));
  if (op_class == OperatorClass::kSoftmax) {
    const std::int64_t columns = extents(shape, 1, 5).back();
    work.extent = {elements / columns, columns, 0, 0};
  }
  return work;
}

// Returns no work for an operator that the table may have and we do not map.
std::vector<Work> work_of(const std::string& op, const std::string& shape, DType type) {
  if (op == "matmul" || op == "linear") {
    const std::vector<std::int64_t> e = extents(shape, 3, 4);
    return {product_work(type, e[0], e[1], e[2], e.size() > 3 ? e[3] : 1)};
  }
  if (op.starts_with("attention")) {
    const std::vector<std::int64_t> e = extents(shape, 4, 4);
    const double tokens = static_cast<double>(e[0] * e[1]) * static_cast<double>(e[2]);
    return {fused_attention_work(type, tokens, e[2], e[3], op.find("causal") != std::string::npos,
                                 op.find("backward") != std::string::npos)};
  }
  for (const RowsOf& known : kConvolutions) {
    if (known.op == op) return {convolution_work(type, known.op_class, convolution_of(shape))};
  }
  for (const RowsOf& known : kStreams) {
    if (known.op == op) return {stream_work(known.op_class, type, shape, 1)};
  }
  if (op == "add" || op == "mul") return {stream_work(OperatorClass::kElementwise, type, shape, 2)};
  return {};
}

void read_row(const CsvTable& csv, const CsvRow& row, MeasuredTable& table) {
  const RowReader reader(csv, row);
  const std::string& op = reader.text("op");
  const DType type = type_called(reader.text("dtype"));
  std::vector<Work> work = work_of(op, reader.text("shape"), type);
  if (work.empty()) {
    ++table.other[fmt::format("operator {}", quoted_excerpt(op))];
    return;
  }
  table.operators.push_back({.device = reader.text("device"),
                             .kind = fmt::format("{} {}", op, name_of(type)),
                             .text = fmt::format("{} {}", op, reader.text("shape")),
                             .work = std::move(work),
                             .seconds = reader.positive("seconds"),
                             .line = row.line});
}

}  // namespace
}  // namespace plain_table_detail

const OperatorTableKind& plain_table_kind() {
  static constexpr OperatorTableKind kKind{"operators", plain_table_detail::kColumns,
                                           plain_table_detail::read_row};
  return kKind;
}

}  // namespace tidemark
