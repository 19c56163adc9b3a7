// The tables of DeepBench, NeuSight, FlashAttention's figures and the best matmul per accelerator.
#include <algorithm>
#include <array>
#include <string>

#include <fmt/format.h>

#include "graph/core/errors.hpp"
#include "hwprofiles/measured/operator_tables.hpp"
#include "hwprofiles/measured/operator_work.hpp"
#include "hwprofiles/measured/row_reader.hpp"

namespace tidemark {
namespace published_tables_detail {
namespace {

constexpr double kMillisecond = 1e-3;
constexpr double kTera = 1e12;

// DeepBench's words for the types of a product.
DType deepbench_type(const std::string& math) {
  if (math.find("Int8") != std::string::npos) return DType::kInt8;
  return math.find("16 bit") != std::string::npos ? DType::kFloat16 : DType::kFloat32;
}

void add(MeasuredTable& table, const CsvRow& row, MeasuredOperator op) {
  op.line = row.line;
  table.operators.push_back(std::move(op));
}

void read_deepbench_gemm(const CsvTable& csv, const CsvRow& row, MeasuredTable& table) {
  const RowReader reader(csv, row);
  const std::int64_t m = reader.count("M");
  const std::int64_t n = reader.count("N");
  const std::int64_t k = reader.count("K");
  const DType type = deepbench_type(reader.text("math"));
  add(table, row,
      {.device = reader.text("device"),
       .kind = fmt::format("matmul {}", name_of(type)),
       .text = fmt::format("matmul {}x{}x{}", m, n, k),
       .work = {product_work(type, m, n, k, 1)},
       .seconds = reader.positive("time_ms") * kMillisecond});
}

ConvolutionShape deepbench_shape(const RowReader& reader) {
  const auto places = [&](const char* extent, const char* window, const char* pad,
                          const char* stride) {
    const std::int64_t padded = reader.count(extent) + 2 * reader.count(pad, 0);
    if (padded < reader.count(window)) throw RowFault{"the window is larger than the input"};
    return (padded - reader.count(window)) / reader.count(stride) + 1;
  };
  return {.batch = reader.count("N"),
          .channels = reader.count("C"),
          .filters = reader.count("K"),
          .input_places = reader.count("W") * reader.count("H"),
          .output_places =
              places("W", "S_fw", "pad_w", "stride_w") * places("H", "R_fh", "pad_h", "stride_h"),
          .window = reader.count("S_fw") * reader.count("R_fh"),
          .stride = reader.count("stride_w") * reader.count("stride_h"),
          .square = reader.count("S_fw") == reader.count("R_fh")};
}

void read_deepbench_convolution(const CsvTable& csv, const CsvRow& row, MeasuredTable& table) {
  struct Direction {
    const char* column;
    const char* name;
    OperatorClass op_class;
  };
  constexpr std::array<Direction, 3> kDirections = {
      {{"fwd_ms", "forward", OperatorClass::kConvolution},
       {"bwd_inputs_ms", "backward data", OperatorClass::kConvolutionBackwardData},
       {"bwd_params_ms", "backward weight", OperatorClass::kConvolutionBackwardWeight}}};
  const RowReader reader(csv, row);
  const ConvolutionShape shape = deepbench_shape(reader);
  const DType type = deepbench_type(reader.text("math"));
  for (const Direction& direction : kDirections) {
    const std::string& cell = reader.text(direction.column);
    if (cell.empty() || cell.starts_with("N/A")) {  // the first layer has no data gradient
      ++table.other["directions that the table leaves out"];
      continue;
    }
    add(table, row,
        {.device = reader.text("device"),
         .kind = fmt::format("convolution {} {}", direction.name, name_of(type)),
         .text = fmt::format("convolution {} {}x{}x{}x{}, {} filters of {}x{}, stride {}",
                             direction.name, shape.batch, shape.channels, reader.text("H"),
                             reader.text("W"), shape.filters, reader.text("R_fh"),
                             reader.text("S_fw"), reader.text("stride_w")),
         .work = {convolution_work(type, direction.op_class, shape)},
         .seconds = reader.positive(direction.column) * kMillisecond});
  }
}

// All in fp32 without tensor cores, forward only. `linear` and `bmm`: an input of (B, M, N) times
// (N, K), so the output is M x K and the reduction N.
void read_neusight(const CsvTable& csv, const CsvRow& row, MeasuredTable& table) {
  constexpr DType kType = DType::kFloat32;
  const RowReader reader(csv, row);
  const std::string& op = reader.text("op");
  MeasuredOperator measured{.device = reader.text("device"),
                            .seconds = reader.positive("latency_ms") * kMillisecond,
                            .host_floor = true};
  const std::int64_t batch = reader.count("B");
  if (op == "bmm" || op == "linear") {
    const std::int64_t m = reader.count("M");
    const std::int64_t k = reader.count("N");
    const std::int64_t n = reader.count("K");
    const bool linear = op == "linear";
    measured.kind = linear ? "linear fp32" : "batched matmul fp32";
    measured.text =
        fmt::format("{} {}x{}x{} batch {}", linear ? "linear" : "matmul", m, n, k, batch);
    measured.work = {linear ? product_work(kType, batch * m, n, k, 1)
                            : product_work(kType, m, n, k, batch)};
  } else {
    const std::int64_t width = reader.count("H");
    const std::int64_t elements = batch * width;
    OperatorClass op_class = OperatorClass::kElementwise;
    std::string name = op;
    if (op == "softmax") {
      op_class = OperatorClass::kSoftmax;
    } else if (op == "ln") {
      op_class = OperatorClass::kNormalization;
      name = "layer norm";
    } else if (op != "add" && op != "gelu") {
      ++table.other[fmt::format("operator {}", quoted_excerpt(op))];
      return;
    }
    measured.kind = fmt::format("{} fp32", name);
    measured.text = fmt::format("{} {}x{}", name, batch, width);
    measured.work = {traffic_work(kType, op_class, Elements(op == "add" ? 2 * elements : elements),
                                  Elements(elements))};
    if (op_class == OperatorClass::kSoftmax) measured.work.front().extent = {batch, width, 0, 0};
  }
  add(table, row, std::move(measured));
}

// Bars of 16 k tokens and a hidden size of 2048: forward 4 tokens length hidden FLOP, backward 2.5
// times as many.
void read_attention(const CsvTable& csv, const CsvRow& row, MeasuredTable& table) {
  constexpr double kTokens = 16384;
  constexpr std::int64_t kHidden = 2048;
  const RowReader reader(csv, row);
  const std::string& kernel = reader.text("impl");
  const std::string& pass = reader.text("pass");
  if (kernel != "FA2") {
    ++table.other["attention kernels other than FlashAttention-2, which PyTorch runs"];
    return;
  }
  const bool forward = pass == "fwd" || pass == "fwd+bwd";
  const bool backward = pass == "bwd" || pass == "fwd+bwd";
  if (!forward && !backward) throw RowFault{"pass: expected fwd, bwd or fwd+bwd"};
  const std::int64_t length = reader.count("seqlen");
  const std::int64_t width = reader.count("headdim");
  const bool causal = reader.count("causal", 0) != 0;
  const std::int64_t heads = kHidden / width;
  const double tokens = kTokens * static_cast<double>(heads);
  MeasuredOperator op{.device = reader.text("device"),
                      .kind = "attention bf16",
                      .text = fmt::format("attention {} length {} width {}{}", pass, length, width,
                                          causal ? " causal" : "")};
  double flops = 0;
  for (const bool second : {false, true}) {
    if (!(second ? backward : forward)) continue;
    op.work.push_back(
        fused_attention_work(DType::kBFloat16, tokens, length, width, causal, second));
    flops += op.work.back().flops.count;
  }
  op.seconds = flops / (reader.positive("tflops") * kTera);
  add(table, row, std::move(op));
}

DType type_called(const std::string& name) {
  for (const DType type : {DType::kFloat64, DType::kFloat32, DType::kTf32, DType::kFloat16,
                           DType::kBFloat16, DType::kFloat8, DType::kInt8}) {
    if (name == name_of(type) || name.starts_with(std::string(name_of(type)) + '_')) return type;
  }
  throw RowFault{fmt::format("dtype: unknown type {}", quoted_excerpt(name))};
}

void read_best_product(const CsvTable& csv, const CsvRow& row, MeasuredTable& table) {
  const RowReader reader(csv, row);
  const std::string& shape = reader.text("best_shape_MxNxK");
  std::array<std::int64_t, 3> extent{};
  std::size_t begin = 0;
  for (std::int64_t& e : extent) {
    const std::size_t end = std::min(shape.find('x', begin), shape.size());
    const auto number = number_in(std::string_view(shape).substr(begin, end - begin));
    if (!number || !(*number >= 1)) {
      throw RowFault{
          fmt::format("best_shape_MxNxK: expected MxNxK, found {}", quoted_excerpt(shape))};
    }
    e = static_cast<std::int64_t>(*number);
    begin = std::min(end + 1, shape.size());
  }
  const DType type = type_called(reader.text("dtype"));
  MeasuredOperator op{.device = reader.text("accelerator"),
                      .kind = fmt::format("best matmul {}", name_of(type)),
                      .text = fmt::format("matmul {}", shape),
                      .work = {product_work(type, extent[0], extent[1], extent[2], 1)}};
  op.seconds = op.work.front().flops.count / (reader.positive("mamf_tflops") * kTera);
  add(table, row, std::move(op));
}

constexpr auto kGemmColumns =
    std::to_array<std::string_view>({"device", "math", "M", "N", "K", "time_ms"});
constexpr auto kConvolutionColumns = std::to_array<std::string_view>(
    {"device", "math", "W", "H", "C", "N", "K", "S_fw", "R_fh", "pad_w", "pad_h", "stride_w",
     "stride_h", "fwd_ms", "bwd_inputs_ms", "bwd_params_ms"});
constexpr auto kNeusightColumns =
    std::to_array<std::string_view>({"device", "op", "B", "M", "N", "K", "H", "latency_ms"});
constexpr auto kAttentionColumns = std::to_array<std::string_view>(
    {"device", "impl", "pass", "causal", "headdim", "seqlen", "tflops"});
constexpr auto kBestColumns =
    std::to_array<std::string_view>({"dtype", "accelerator", "mamf_tflops", "best_shape_MxNxK"});

constexpr std::array<OperatorTableKind, 5> kKinds = {
    {{"DeepBench products", kGemmColumns, read_deepbench_gemm},
     {"DeepBench convolutions", kConvolutionColumns, read_deepbench_convolution},
     {"NeuSight operators", kNeusightColumns, read_neusight},
     {"attention rates", kAttentionColumns, read_attention},
     {"best products", kBestColumns, read_best_product}}};

// The operator of a table without a header and the class that it has.
struct Compass {
  std::string_view op;
  OperatorClass op_class;
};
constexpr std::array<Compass, 3> kCompass = {{{"softmax", OperatorClass::kSoftmax},
                                              {"layernorm", OperatorClass::kNormalization},
                                              {"gelu", OperatorClass::kElementwise}}};

double number_at(const CsvRow& row, std::size_t place) {
  if (place >= row.cells.size()) throw RowFault{"the row is too short"};
  std::string_view cell = row.cells[place];
  for (const std::string_view unit : {"ms", "Tflops"}) {
    if (cell.ends_with(unit)) cell.remove_suffix(unit.size());
  }
  const auto number = number_in(cell);
  if (!number || !(*number > 0)) {
    throw RowFault{fmt::format("column {}: expected a number above 0, found {}", place + 1,
                               quoted_excerpt(row.cells[place]))};
  }
  return *number;
}

}  // namespace
}  // namespace published_tables_detail

std::span<const OperatorTableKind> published_table_kinds() {
  return published_tables_detail::kKinds;
}

// Products are M, K, N, milliseconds; the others extents and 10^9 elements per second. All fp16, on
// one A100 whose form the tables do not say; timed between two synchronisations.
void read_llmcompass_row(std::string_view op, const CsvRow& row, MeasuredTable& table) {
  using published_tables_detail::number_at;
  constexpr double kGiga = 1e9;
  MeasuredOperator measured{.device = "A100", .line = row.line, .host_floor = true};
  if (op == "matmul") {
    const auto m = static_cast<std::int64_t>(number_at(row, 0));
    const auto k = static_cast<std::int64_t>(number_at(row, 1));
    const auto n = static_cast<std::int64_t>(number_at(row, 2));
    measured.kind = "matmul fp16";
    measured.text = fmt::format("matmul {}x{}x{}", m, n, k);
    measured.work = {product_work(DType::kFloat16, m, n, k, 1)};
    measured.seconds = number_at(row, 3) * published_tables_detail::kMillisecond;
  } else {
    std::int64_t elements = 1;
    std::string shape;
    for (std::size_t i = 0; i + 1 < row.cells.size(); ++i) {
      elements *= static_cast<std::int64_t>(number_at(row, i));
      shape += (i == 0 ? "" : "x") + row.cells[i];
    }
    OperatorClass op_class = OperatorClass::kElementwise;
    for (const auto& known : published_tables_detail::kCompass) {
      if (known.op == op) op_class = known.op_class;
    }
    const std::string name = op == "layernorm" ? "layer norm" : std::string(op);
    measured.kind = fmt::format("{} fp16", name);
    measured.text = fmt::format("{} {}", name, shape);
    measured.work = {
        traffic_work(DType::kFloat16, op_class, Elements(elements), Elements(elements))};
    if (op_class == OperatorClass::kSoftmax && row.cells.size() > 2) {
      const auto columns = static_cast<std::int64_t>(number_at(row, row.cells.size() - 2));
      measured.work.front().extent = {elements / columns, columns, 0, 0};
    }
    measured.seconds =
        static_cast<double>(elements) / (number_at(row, row.cells.size() - 1) * kGiga);
  }
  table.operators.push_back(std::move(measured));
}

}  // namespace tidemark
