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
  [[nodiscard]] std::optional<DType> type(std::size_t argument) const {
    return argument < call_.types.size() ? call_.types[argument] : std::nullopt;
  }
  // Whether arguments a and b are of one type that is known.
  [[nodiscard]] bool same_type(std::size_t a, std::size_t b) const {
    return type(a) && type(a) == type(b);
  }
  // A row of the kernels whose names have `part`, as an operator on that argument's type.
  [[nodiscard]] std::vector<Row> row(std::string op, std::string shape, std::size_t argument,
                                     std::string_view part = {}) const;

  [[nodiscard]] std::vector<Row> product(std::size_t a) const;
  [[nodiscard]] std::vector<Row> attention(std::size_t query, std::size_t causal,
                                           std::string_view direction) const;
  [[nodiscard]] std::vector<Row> convolution() const;
  [[nodiscard]] std::vector<Row> convolution_backward() const;
  [[nodiscard]] std::vector<Row> softmax() const;
  [[nodiscard]] std::vector<Row> elementwise() const;
  // "NxCxHxW,KxRxS,stride,padding,groups" of a convolution whose input, weight and numbers stand at
  // these arguments; empty where it is not the same in both axes or has a dilation.
  [[nodiscard]] std::string convolution_shape(std::size_t input, std::size_t stride,
                                              std::size_t padding, std::size_t dilation,
                                              std::size_t groups) const;

  const ProfiledCall& call_;
  const std::vector<ProfiledKernel>& kernels_;
};

// Products of fp32 on tensor cores say so in the names of their kernels.
std::vector<Row> Mapping::row(std::string op, std::string shape, std::size_t argument,
                              std::string_view part) const {
  const std::optional<DType> known = type(argument);
  if (!known) return {};
  DType dtype = *known;
  double seconds = 0;
  for (const ProfiledKernel& kernel : kernels_) {
    if (kernel.name.find(part) == std::string::npos) continue;
    seconds += kernel.seconds;
    for (const char* word : {"tf32", "s1688", "TF32"}) {
      const bool on_tensor_cores = kernel.name.find(word) != std::string::npos;
      if (dtype == DType::kFloat32 && on_tensor_cores) dtype = DType::kTf32;
    }
  }
  if (!(seconds > 0)) return {};
  return {{std::move(op), std::move(shape), std::string(name_of(dtype)), seconds}};
}

// [M, K] times [K, N], or batches of them.
std::vector<Row> Mapping::product(std::size_t a) const {
  const Dims left = dims(a);
  const Dims right = dims(a + 1);
  if (left.size() != right.size() || left.size() < 2 || left.size() > 3) return {};
  const std::size_t m = left.size() - 2;
  if (left[m + 1] != right[m] || left[0] != (m == 1 ? right[0] : left[0]) || !same_type(a, a + 1))
    return {};
  Dims shape{left[m], right[m + 1], left[m + 1]};
  if (m == 1) shape.push_back(left[0]);
  return row("matmul", product_of(shape), a);
}

// Flash attention takes [batch, length, heads, width] of queries, keys and values.
std::vector<Row> Mapping::attention(std::size_t query, std::size_t causal,
                                    std::string_view direction) const {
  const Dims q = dims(query);
  const std::string masked = concrete(causal);
  if (q.size() != 4 || dims(query + 1) != q || (masked != "True" && masked != "False")) return {};
  return row(fmt::format("attention{}{}", masked == "True" ? "_causal" : "", direction),
             product_of({q[0], q[2], q[1], q[3]}), query);
}

std::string Mapping::convolution_shape(std::size_t input, std::size_t stride, std::size_t padding,
                                       std::size_t dilation, std::size_t groups) const {
  const Dims x = dims(input);
  const Dims weight = dims(input + 1);
  if (x.size() != 4 || weight.size() != 4) return {};
  // The number that holds for both axes.
  const auto of_both = [&](std::size_t argument) -> std::optional<std::int64_t> {
    const auto numbers = numbers_of(concrete(argument));
    if (!numbers || numbers->empty() || numbers->front() != numbers->back()) return std::nullopt;
    return numbers->front();
  };
  const auto strides = of_both(stride);
  const auto paddings = of_both(padding);
  const auto group_count = of_both(groups);
  if (!strides || !paddings || !group_count || of_both(dilation).value_or(0) != 1) return {};
  return fmt::format("{},{}x{}x{},{},{},{}", product_of(x), weight[0], weight[2], weight[3],
                     *strides, *paddings, *group_count);
}

// cudnn_convolution(input, weight, padding, stride, dilation, groups, ..)
std::vector<Row> Mapping::convolution() const {
  const std::string shape = convolution_shape(0, 3, 2, 4, 5);
  return shape.empty() ? std::vector<Row>() : row("conv", shape, 0);
}

// convolution_backward(gradient, input, weight, bias_sizes, stride, padding, dilation, transposed,
// output_padding, groups, output_mask): both gradients in one call, told apart by their kernels.
std::vector<Row> Mapping::convolution_backward() const {
  const std::string shape = convolution_shape(1, 4, 5, 6, 9);
  if (shape.empty() || concrete(7) != "False") return {};
  for (const ProfiledKernel& kernel : kernels_) {
    const bool of_data = kernel.name.find("dgrad") != std::string::npos;
    if (of_data == (kernel.name.find("wgrad") != std::string::npos)) return {};
  }
  std::vector<Row> rows = row("conv_backward_data", shape, 1, "dgrad");
  for (Row& of_weight : row("conv_backward_weight", shape, 1, "wgrad"))
    rows.push_back(std::move(of_weight));
  return rows;
}

// _softmax(input, axis, half_to_float): over the last axis, into the type of the input. PyTorch 1
// does not record the axis.
std::vector<Row> Mapping::softmax() const {
  const Dims shape = dims(0);
  const auto axis = numbers_of(concrete(1));
  if (shape.empty() || shape.size() > 5 || !axis || axis->size() != 1 || concrete(2) == "True")
    return {};
  const auto last = static_cast<std::int64_t>(shape.size()) - 1;
  if (axis->front() != -1 && axis->front() != last) return {};
  return row("softmax", product_of(shape), 0);
}

// Reads tensors of one shape and type, and writes one. Copies to and from the host are none.
std::vector<Row> Mapping::elementwise() const {
  std::size_t tensors = 0;
  for (std::size_t i = 0; i < call_.dims.size(); ++i) {
    if (dims(i).empty()) continue;
    if (dims(i) != dims(0) || !same_type(i, 0)) return {};
    ++tensors;
  }
  if (dims(0).empty() || dims(0).size() > 5 || tensors > 2) return {};
  for (const ProfiledKernel& kernel : kernels_) {
    if (kernel.name.starts_with("Memcpy") && !kernel.name.starts_with("Memcpy DtoD")) return {};
  }
  // A copy's first argument is what it writes.
  const bool reads_two = tensors == 2 && call_.name != "aten::copy_";
  return row(reads_two ? "add" : "copy", product_of(dims(0)), 0);
}

std::vector<Row> Mapping::rows() const {
  const std::string_view name = call_.name;
  if (name == "aten::mm" || name == "aten::bmm") return product(0);
  if (name == "aten::addmm" || name == "aten::baddbmm") return product(1);
  if (name == "aten::cudnn_convolution") return convolution();
  if (name == "aten::convolution_backward") return convolution_backward();
  if (name == "aten::_flash_attention_forward") return attention(0, 8, "");
  if (name == "aten::_flash_attention_backward") return attention(1, 11, "_backward");
  if (name == "aten::_softmax" || name == "aten::_log_softmax") return softmax();
  // Its time follows from the elements, however many axes are normalised.
  if (name == "aten::native_layer_norm" && !dims(0).empty() && dims(0).size() <= 5)
    return row("layer_norm", product_of(dims(0)), 0);
  // ReLU is clamp_min.
  for (const char* known : {"aten::add", "aten::add_", "aten::mul", "aten::mul_", "aten::gelu",
                            "aten::clamp_min", "aten::clamp_min_", "aten::silu", "aten::copy_"}) {
    if (name == known) return elementwise();
  }
  return {};
}

double median_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

}  // namespace
}  // namespace profiled_operators_detail

void ProfiledOperators::add(const ProfiledCall& call, const std::vector<ProfiledKernel>& kernels) {
  const std::vector<profiled_operators_detail::Row> found =
      profiled_operators_detail::Mapping(call, kernels).rows();
  if (found.empty()) count_other(fmt::format("operator {}", quoted_excerpt(call.name)));
  for (const profiled_operators_detail::Row& row : found) {
    Times& times = rows_[{row.op, row.shape, row.dtype}];
    if (times.seconds.empty()) times.event = call.event;
    times.seconds.push_back(row.seconds);
  }
}

MeasuredTable ProfiledOperators::table(const std::string& file, const std::string& device) const {
  CsvTable table{.file = file, .header = {"op", "shape", "dtype", "device", "seconds"}, .rows = {}};
  std::size_t calls = 0;
  for (const auto& [key, times] : rows_) {
    calls += times.seconds.size();
    table.rows.push_back(
        {.line = times.event,
         .cells = {key[0], key[1], key[2], device,
                   fmt::format("{}", profiled_operators_detail::median_of(times.seconds))}});
  }
  MeasuredTable read = read_measured_operators(table);
  for (const auto& [reason, count] : other_)
    read.other[reason] += count;
  read.refused.insert(read.refused.end(), refused_.begin(), refused_.end());
  read.rows = calls + refused_.size();
  require_mostly_right(read);
  return read;
}

}  // namespace tidemark
