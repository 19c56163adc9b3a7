#include "scenarios/measured/profiled_operators.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "graph/core/errors.hpp"
#include "hwprofiles/measured/csv_table.hpp"

namespace tidemark {
namespace profiled_operators_detail {
namespace {

using Dims = std::vector<std::int64_t>;

// A row of the plainest table of operators.
struct Row {
  std::string op;
  std::string shape;
  std::string dtype;
  double seconds = 0;
};

std::string product_of(const Dims& dims) {
  return fmt::format("{}", fmt::join(dims, "x"));
}

// Returns the numbers of "[1, 1]" or "1"; nothing for other texts.
std::optional<Dims> numbers_of(std::string_view text) {
  if (text.starts_with('[') && text.ends_with(']')) text = text.substr(1, text.size() - 2);
  Dims numbers;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(','), text.size());
    const auto number = number_in(text.substr(0, end));
    if (!number || std::abs(*number) > 1e9) return std::nullopt;
    numbers.push_back(static_cast<std::int64_t>(*number));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return numbers;
}

// Maps the calls of a trace to rows of a table. A call that is not understood gives none.
class Mapping {
 public:
  Mapping(const ProfiledCall& call, const std::vector<ProfiledKernel>& kernels)
      : call_(call), kernels_(kernels) {}

  [[nodiscard]] std::vector<Row> rows() const;

 private:
  // The shape of a tensor argument; empty where there is none.
  [[nodiscard]] Dims dims(std::size_t argument) const {
    return argument < call_.dims.size() ? call_.dims[argument] : Dims();
  }
  [[nodiscard]] std::string concrete(std::size_t argument) const {
    return argument < call_.concrete.size() ? call_.concrete[argument] : std::string();
  }
  [[nodiscard]] std::string type(std::size_t argument) const;
  [[nodiscard]] bool runs(std::string_view part) const {
    return std::any_of(kernels_.begin(), kernels_.end(), [&](const ProfiledKernel& kernel) {
      return kernel.name.find(part) != std::string::npos;
    });
  }
  // All kernels of the call together.
  [[nodiscard]] std::vector<Row> row(std::string op, std::string shape, std::string dtype) const;

  [[nodiscard]] std::vector<Row> product(std::size_t a) const;
  [[nodiscard]] std::vector<Row> attention(std::size_t query, std::size_t causal,
                                           std::string_view direction) const;
  [[nodiscard]] std::vector<Row> convolution() const;
  [[nodiscard]] std::vector<Row> convolution_backward() const;
  [[nodiscard]] std::vector<Row> elementwise() const;
  // "NxCxHxW,KxRxS,stride,padding,groups" of a convolution whose input, weight and numbers stand at
  // these arguments; empty where it is not square or has a dilation.
  [[nodiscard]] std::string convolution_shape(std::size_t input, std::size_t stride,
                                              std::size_t padding, std::size_t dilation,
                                              std::size_t groups) const;

  const ProfiledCall& call_;
  const std::vector<ProfiledKernel>& kernels_;
};

// Products of fp32 on tensor cores say so in the names of their kernels.
std::string Mapping::type(std::size_t argument) const {
  static const std::map<std::string_view, std::string_view> names{
      {"float", "fp32"}, {"double", "fp64"}, {"c10::Half", "fp16"}, {"c10::BFloat16", "bf16"}};
  if (argument >= call_.types.size()) return {};
  const auto known = names.find(call_.types[argument]);
  if (known == names.end()) return {};
  const bool tensor_cores = runs("tf32") || runs("s1688") || runs("TF32");
  return std::string(known->second == "fp32" && tensor_cores ? "tf32" : known->second);
}

std::vector<Row> Mapping::row(std::string op, std::string shape, std::string dtype) const {
  double seconds = 0;
  for (const ProfiledKernel& kernel : kernels_)
    seconds += kernel.seconds;
  return {{std::move(op), std::move(shape), std::move(dtype), seconds}};
}

// [M, K] times [K, N], or batches of them.
std::vector<Row> Mapping::product(std::size_t a) const {
  const Dims left = dims(a);
  const Dims right = dims(a + 1);
  if (left.size() != right.size() || left.size() < 2 || left.size() > 3) return {};
  const std::size_t m = left.size() - 2;
  Dims shape{left[m], right[m + 1], left[m + 1]};
  if (m == 1) shape.push_back(left[0]);
  return row("matmul", product_of(shape), type(a));
}

// Flash attention takes [batch, length, heads, width] of queries, keys and values.
std::vector<Row> Mapping::attention(std::size_t query, std::size_t causal,
                                    std::string_view direction) const {
  const Dims q = dims(query);
  const std::string masked = concrete(causal);
  if (q.size() != 4 || dims(query + 1) != q || (masked != "True" && masked != "False")) return {};
  return row(fmt::format("attention{}{}", masked == "True" ? "_causal" : "", direction),
             product_of({q[0], q[2], q[1], q[3]}), type(query));
}

std::string Mapping::convolution_shape(std::size_t input, std::size_t stride, std::size_t padding,
                                       std::size_t dilation, std::size_t groups) const {
  const Dims x = dims(input);
  const Dims weight = dims(input + 1);
  if (x.size() != 4 || weight.size() != 4) return {};
  const auto even = [&](std::size_t argument) -> std::optional<std::int64_t> {
    const auto numbers = numbers_of(concrete(argument));
    if (!numbers || numbers->empty() || numbers->front() != numbers->back()) return std::nullopt;
    return numbers->front();
  };
  const auto steps = even(stride);
  const auto margin = even(padding);
  const auto spread = even(dilation);
  const auto parts = even(groups);
  if (!steps || !margin || !parts || spread.value_or(0) != 1) return {};
  return fmt::format("{},{}x{}x{},{},{},{}", product_of(x), weight[0], weight[2], weight[3], *steps,
                     *margin, *parts);
}

// cudnn_convolution(input, weight, padding, stride, dilation, groups, ..)
std::vector<Row> Mapping::convolution() const {
  const std::string shape = convolution_shape(0, 3, 2, 4, 5);
  if (shape.empty()) return {};
  return row("conv", shape, type(0));
}

// convolution_backward(gradient, input, weight, bias_sizes, stride, padding, dilation, transposed,
// output_padding, groups, output_mask): both gradients in one call, told apart by their kernels.
std::vector<Row> Mapping::convolution_backward() const {
  const std::string shape = convolution_shape(1, 4, 5, 6, 9);
  if (shape.empty() || concrete(7) != "False") return {};
  double data = 0;
  double weight = 0;
  for (const ProfiledKernel& kernel : kernels_) {
    const bool of_data = kernel.name.find("dgrad") != std::string::npos;
    const bool of_weight = kernel.name.find("wgrad") != std::string::npos;
    if (of_data == of_weight) return {};
    (of_data ? data : weight) += kernel.seconds;
  }
  std::vector<Row> rows;
  if (data > 0) rows.push_back({"conv_backward_data", shape, type(1), data});
  if (weight > 0) rows.push_back({"conv_backward_weight", shape, type(1), weight});
  return rows;
}

// Reads tensors of one shape and type, and writes one.
std::vector<Row> Mapping::elementwise() const {
  std::size_t tensors = 0;
  for (std::size_t i = 0; i < call_.dims.size(); ++i) {
    if (dims(i).empty()) continue;
    if (dims(i) != dims(0) || type(i) != type(0)) return {};
    ++tensors;
  }
  if (dims(0).empty() || dims(0).size() > 5 || tensors > 2) return {};
  // A copy's first argument is what it writes.
  const bool reads_two = tensors == 2 && call_.name != "aten::copy_";
  return row(reads_two ? "add" : "copy", product_of(dims(0)), type(0));
}

std::vector<Row> Mapping::rows() const {
  const std::string_view name = call_.name;
  std::vector<Row> rows;
  if (name == "aten::mm" || name == "aten::bmm") {
    rows = product(0);
  } else if (name == "aten::addmm" || name == "aten::baddbmm") {
    rows = product(1);
  } else if (name == "aten::cudnn_convolution") {
    rows = convolution();
  } else if (name == "aten::convolution_backward") {
    rows = convolution_backward();
  } else if (name == "aten::_flash_attention_forward") {
    rows = attention(0, 8, "");
  } else if (name == "aten::_flash_attention_backward") {
    rows = attention(1, 11, "_backward");
  } else if (name == "aten::_softmax" || name == "aten::_log_softmax") {
    // Over the last axis; PyTorch 1 does not record which it is.
    const auto axis = numbers_of(concrete(1));
    const Dims shape = dims(0);
    const bool last = !axis || axis->empty() || axis->front() == -1 ||
                      axis->front() == static_cast<std::int64_t>(shape.size()) - 1;
    if (last && !shape.empty() && shape.size() <= 5)
      rows = row("softmax", product_of(shape), type(0));
  } else if (name == "aten::native_layer_norm") {
    if (!dims(0).empty() && dims(0).size() <= 5)
      rows = row("layer_norm", product_of(dims(0)), type(0));
  } else if (name == "aten::add" || name == "aten::mul" || name == "aten::gelu" ||
             name == "aten::relu" || name == "aten::silu" || name == "aten::copy_" ||
             name == "aten::add_" || name == "aten::mul_") {
    rows = elementwise();
  }
  std::erase_if(rows, [](const Row& row) { return row.dtype.empty() || !(row.seconds > 0); });
  return rows;
}

double median_of(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace
}  // namespace profiled_operators_detail

void ProfiledOperators::add(const ProfiledCall& call, const std::vector<ProfiledKernel>& kernels) {
  using namespace profiled_operators_detail;
  const std::vector<Row> found = Mapping(call, kernels).rows();
  if (found.empty()) count_other(fmt::format("operator {}", quoted_excerpt(call.name)));
  for (const Row& row : found) {
    Times& times = rows_[{row.op, row.shape, row.dtype}];
    if (times.seconds.empty()) times.event = call.event;
    times.seconds.push_back(row.seconds);
  }
}

MeasuredTable ProfiledOperators::table(const std::string& file, const std::string& device) const {
  using namespace profiled_operators_detail;
  CsvTable table{.file = file, .header = {"op", "shape", "dtype", "device", "seconds"}, .rows = {}};
  for (const auto& [key, times] : rows_) {
    table.rows.push_back(
        {.line = times.event,
         .cells = {key[0], key[1], key[2], device, fmt::format("{}", median_of(times.seconds))}});
  }
  MeasuredTable read = read_measured_operators(table);
  for (const auto& [reason, count] : other_)
    read.other[reason] += count;
  return read;
}

}  // namespace tidemark
