#include "scenarios/measured/profiler_trace.hpp"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "hwprofiles/calibrate/calibrate.hpp"
#include "hwprofiles/measured/csv_table.hpp"
#include "tests/cli/command_runner.hpp"
#include "tests/scenarios/scenario_files.hpp"

namespace tidemark::profiler_trace_test {

using namespace tidemark::testing;

namespace {

using Json = nlohmann::ordered_json;

struct Kernel {
  std::string name;
  double microseconds = 0;
};

// A trace as export_chrome_trace() writes it: a device, operators and their kernels.
class TraceFile {
 public:
  explicit TraceFile(std::string device = "NVIDIA A100-SXM4-80GB") {
    document_["schemaVersion"] = 1;
    document_["deviceProperties"] = Json::array(
        {{{"id", 0}, {"name", std::move(device)}, {"totalGlobalMem", 85'000'000'000LL}}});
    document_["traceEvents"] = Json::array({{{"name", "process_name"}, {"ph", "M"}, {"pid", 1}}});
  }

  // An operator with the shapes and types of its arguments, what is known of its numbers, and the
  // kernels that it launches itself.
  void call(const std::string& name, const Json& dims, const Json& types, const Json& concrete,
            const std::vector<Kernel>& kernels) {
    ++id_;
    Json arguments{{"External id", id_}, {"Input Dims", dims}, {"Input type", types}};
    if (!concrete.is_null()) arguments["Concrete Inputs"] = concrete;
    event("cpu_op", name, 30, arguments);
    for (const Kernel& kernel : kernels) {
      event("cuda_runtime", "cudaLaunchKernel", 5, {{"External id", id_}, {"correlation", 7}});
      event("kernel", kernel.name, kernel.microseconds,
            {{"External id", id_}, {"correlation", 7}, {"device", 0}, {"stream", 7}});
    }
  }
  [[nodiscard]] std::string text() const { return document_.dump(); }

 private:
  void event(const char* category, const std::string& name, double duration, Json arguments) {
    document_["traceEvents"].push_back({{"ph", "X"},
                                        {"cat", category},
                                        {"name", name},
                                        {"pid", 1},
                                        {"tid", 1},
                                        {"ts", 1000.5 * id_},
                                        {"dur", duration},
                                        {"args", std::move(arguments)}});
  }

  Json document_;
  int id_ = 0;
};

MeasuredTable read(const TraceFile& trace) {
  const Workspace workspace;
  workspace.write("step.json", trace.text());
  return read_profiler_trace((workspace.folder() / "step.json").string());
}

// Returns the rows that one operator gives, "text | kind | microseconds", or why it gives none.
std::vector<std::string> rows_of(const std::string& name, const Json& dims, const Json& types,
                                 const Json& concrete, const std::vector<Kernel>& kernels) {
  TraceFile trace;
  // Every trace has a product, so that it is one.
  trace.call("aten::mm", {{2, 3}, {3, 5}}, {"float", "float"}, nullptr, {{"sgemm", 1}});
  trace.call(name, dims, types, concrete, kernels);
  const MeasuredTable table = read(trace);
  std::vector<std::string> rows;
  for (const MeasuredOperator& op : table.operators) {
    if (op.text == "matmul 2x5x3") continue;
    CHECK(op.device == "A100-SXM4-80GB");
    rows.push_back(fmt::format("{} | {} | {:.1f}", op.text, op.kind, op.seconds * 1e6));
  }
  for (const auto& [reason, count] : table.other)
    rows.push_back(reason);
  return rows;
}

using Rows = std::vector<std::string>;
const Json kNoNumbers;
const Json kHalf = {"c10::Half", "c10::Half", "c10::Half"};
const Json kFloat = {"float", "float", "float"};

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("the operators of a profiler's trace are rows of measurements") {
    CHECK(rows_of("aten::mm", {{8, 4}, {4, 6}}, kHalf, kNoNumbers, {{"h16816gemm", 3.5}}) ==
          Rows{"matmul 8x6x4 | matmul fp16 | 3.5"});
    CHECK(rows_of("aten::addmm", {{6}, {8, 4}, {4, 6}, Json::array(), Json::array()},
                  {"float", "float", "float", "Scalar", "Scalar"}, {"", "", "", "1", "1"},
                  {{"ampere_sgemm_128x64_tn", 2}, {"splitKreduce", 1}}) ==
          Rows{"matmul 8x6x4 | matmul fp32 | 3.0"});
    // fp32 on tensor cores.
    CHECK(rows_of("aten::bmm", {{12, 8, 4}, {12, 4, 6}}, kFloat, kNoNumbers,
                  {{"cutlass_80_tensorop_s1688gemm_128x128", 2}}) ==
          Rows{"matmul 8x6x4x12 | matmul tf32 | 2.0"});
    CHECK(rows_of("aten::baddbmm", {{12, 8, 6}, {12, 8, 4}, {12, 4, 6}},
                  {"c10::BFloat16", "c10::BFloat16", "c10::BFloat16"}, kNoNumbers,
                  {{"k", 4}}) == Rows{"matmul 8x6x4x12 | matmul bf16 | 4.0"});
    const Json none = Json::array();
    CHECK(rows_of("aten::cudnn_convolution",
                  {{2, 3, 32, 32}, {16, 3, 3, 3}, none, none, none, none}, kFloat,
                  {"", "", "[1, 1]", "[2, 2]", "[1, 1]", "1", "False", "False", "True"},
                  {{"nchwToNhwcKernel", 1}, {"sm80_xmma_fprop_implicit_gemm_f32f32_f32f32", 5}}) ==
          Rows{"conv 2x3x32x32,16x3x3,2,1,1 | conv fp32 | 6.0"});
    CHECK(rows_of("aten::convolution_backward",
                  {{2, 16, 16, 16},
                   {2, 3, 32, 32},
                   {16, 3, 3, 3},
                   none,
                   none,
                   none,
                   none,
                   none,
                   none,
                   none,
                   none},
                  kHalf, {"", "", "", "", "[2, 2]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "1", ""},
                  {{"sm80_xmma_dgrad_implicit_gemm", 5}, {"cutlass_wgrad_optimized", 7}}) ==
          Rows{"conv_backward_data 2x3x32x32,16x3x3,2,1,1 | conv_backward_data fp16 | 5.0",
               "conv_backward_weight 2x3x32x32,16x3x3,2,1,1 | conv_backward_weight fp16 | 7.0"});
    CHECK(rows_of("aten::_softmax", {{4, 12, 64, 64}, none, none}, kHalf, {"", "-1", "False"},
                  {{"softmax_warp_forward", 2}}) ==
          Rows{"softmax 4x12x64x64 | softmax fp16 | 2.0"});
    CHECK(rows_of("aten::native_layer_norm", {{4, 64, 768}, none, {768}, {768}, none}, kFloat,
                  kNoNumbers, {{"vectorized_layer_norm_kernel", 2}}) ==
          Rows{"layer_norm 4x64x768 | layer_norm fp32 | 2.0"});
    CHECK(rows_of("aten::_flash_attention_forward",
                  {{4, 128, 12, 64}, {4, 128, 12, 64}, {4, 128, 12, 64}}, kHalf,
                  {"", "", "", "", "", "128", "128", "0.", "True", "False", ""},
                  {{"flash_fwd_kernel", 9}}) ==
          Rows{"attention_causal 4x12x128x64 | attention_causal fp16 | 9.0"});
    CHECK(rows_of("aten::_flash_attention_backward",
                  {{4, 128, 12, 64}, {4, 128, 12, 64}, {4, 128, 12, 64}, {4, 128, 12, 64}},
                  {"c10::Half", "c10::Half", "c10::Half", "c10::Half"},
                  {"", "", "", "", "", "", "", "", "128", "128", "0.", "False"},
                  {{"flash_bwd_dot_do_o", 1}, {"flash_bwd_kernel", 20}}) ==
          Rows{"attention_backward 4x12x128x64 | attention_backward fp16 | 21.0"});
    CHECK(rows_of("aten::add", {{4, 64, 768}, {4, 64, 768}, none}, kHalf, kNoNumbers,
                  {{"add", 3}}) == Rows{"add 4x64x768 | add fp16 | 3.0"});
    CHECK(rows_of("aten::mul", {{4, 64}, none}, {"float", "double"}, kNoNumbers, {{"mul", 3}}) ==
          Rows{"copy 4x64 | copy fp32 | 3.0"});
    for (const char* kernel : {"copy", "Memcpy DtoD (Device -> Device)"}) {
      CHECK(rows_of("aten::copy_", {{4, 64}, {4, 64}, none}, kFloat, kNoNumbers, {{kernel, 3}}) ==
            Rows{"copy 4x64 | copy fp32 | 3.0"});
    }
    // ReLU.
    CHECK(rows_of("aten::clamp_min", {{4, 64}, none}, {"float", "Scalar"}, kNoNumbers,
                  {{"k", 3}}) == Rows{"copy 4x64 | copy fp32 | 3.0"});
    // Each gradient of a convolution by its own kernels.
    CHECK(rows_of("aten::convolution_backward",
                  {{2, 16, 32, 32},
                   {2, 3, 32, 32},
                   {16, 3, 3, 3},
                   none,
                   none,
                   none,
                   none,
                   none,
                   none,
                   none,
                   none},
                  kFloat,
                  {"", "", "", "", "[1, 1]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "1", ""},
                  {{"sm80_xmma_dgrad_tf32f32", 5}, {"implicit_wgrad_ffma", 7}}) ==
          Rows{"conv_backward_data 2x3x32x32,16x3x3,1,1,1 | conv_backward_data tf32 | 5.0",
               "conv_backward_weight 2x3x32x32,16x3x3,1,1,1 | conv_backward_weight fp32 | 7.0"});
  }

  TEST_CASE("what hangs on something that the trace does not say is left out and counted") {
    const Json none = Json::array();
    const auto left_out = [](const std::string& name) {
      return Rows{fmt::format("operator '{}'", name)};
    };
    // PyTorch 1 records no strides and no causal masks.
    CHECK(rows_of("aten::cudnn_convolution", {{2, 3, 32, 32}, {16, 3, 3, 3}}, kFloat, kNoNumbers,
                  {{"fprop", 5}}) == left_out("aten::cudnn_convolution"));
    CHECK(rows_of("aten::_flash_attention_forward", {{4, 8, 2, 64}, {4, 8, 2, 64}, {4, 8, 2, 64}},
                  kHalf, kNoNumbers, {{"flash", 5}}) == left_out("aten::_flash_attention_forward"));
    // A kernel that belongs to both gradients.
    CHECK(rows_of("aten::convolution_backward",
                  {{2, 16, 32, 32},
                   {2, 3, 32, 32},
                   {16, 3, 3, 3},
                   none,
                   none,
                   none,
                   none,
                   none,
                   none,
                   none,
                   none},
                  kHalf, {"", "", "", "", "[1, 1]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "1", ""},
                  {{"dgrad", 5}, {"nchwToNhwcKernel", 1}, {"wgrad", 7}}) ==
          left_out("aten::convolution_backward"));
    CHECK(rows_of("aten::cudnn_convolution", {{2, 3, 32, 32}, {16, 3, 3, 3}}, kFloat,
                  {"", "", "[1, 2]", "[1, 1]", "[1, 1]", "1"},
                  {{"fprop", 5}}) == left_out("aten::cudnn_convolution"));
    CHECK(rows_of("aten::_softmax", {{4, 12, 64}, none, none}, kHalf, {"", "1", "False"},
                  {{"softmax", 2}}) == left_out("aten::_softmax"));
    // PyTorch 1 does not say the axis; the other one writes fp32.
    CHECK(rows_of("aten::_softmax", {{8, 21, 64, 64}, none, none}, kHalf, kNoNumbers,
                  {{"softmax", 2}}) == left_out("aten::_softmax"));
    CHECK(rows_of("aten::_softmax", {{4, 12, 64}, none, none}, kHalf, {"", "-1", "True"},
                  {{"softmax", 2}}) == left_out("aten::_softmax"));
    // Operands that do not go together; a copy from the host.
    CHECK(rows_of("aten::mm", {{3, 4}, {7, 5}}, kFloat, kNoNumbers, {{"gemm", 3}}) ==
          left_out("aten::mm"));
    CHECK(rows_of("aten::mm", {{3, 4}, {4, 5}}, {"float", "c10::Half"}, kNoNumbers,
                  {{"gemm", 3}}) == left_out("aten::mm"));
    CHECK(rows_of("aten::copy_", {{4, 64}, {4, 64}}, kFloat, kNoNumbers,
                  {{"Memcpy HtoD (Pageable -> Device)", 300}}) == left_out("aten::copy_"));
    // A cast, a broadcast, an operator that the tables do not have.
    CHECK(rows_of("aten::copy_", {{4, 64}, {4, 64}}, {"float", "c10::Half"}, kNoNumbers,
                  {{"copy", 3}}) == left_out("aten::copy_"));
    CHECK(rows_of("aten::add", {{4, 64}, {64}}, kFloat, kNoNumbers, {{"add", 3}}) ==
          left_out("aten::add"));
    CHECK(rows_of("aten::embedding", {{100, 8}, {4}}, {"float", "long int"}, kNoNumbers,
                  {{"indexSelect", 3}}) == left_out("aten::embedding"));
  }

  TEST_CASE("equal operators are one row with the median, and an outer operator owns nothing") {
    TraceFile trace("NVIDIA GeForce RTX 4090");
    for (const double time : {90.0, 11.0, 10.0, 12.0, 11.0}) {
      trace.call("aten::linear", {{8, 4}, {6, 4}}, kHalf, kNoNumbers, {});
      trace.call("aten::mm", {{8, 4}, {4, 6}}, kHalf, kNoNumbers, {{"gemm", time}});
    }
    const MeasuredTable table = read(trace);
    REQUIRE(table.operators.size() == 1);
    CHECK(table.operators.front().seconds == doctest::Approx(11e-6));
    CHECK(table.operators.front().device == "GeForce RTX 4090");
    CHECK(table.other.empty());
    // Two times give their mean: one of them may be a warm-up.
    TraceFile two;
    two.call("aten::mm", {{8, 4}, {4, 6}}, kHalf, kNoNumbers, {{"gemm", 90}});
    two.call("aten::mm", {{8, 4}, {4, 6}}, kHalf, kNoNumbers, {{"gemm", 10}});
    CHECK(read(two).operators.front().seconds == doctest::Approx(50e-6));
  }

  TEST_CASE("the device is that of the kernels, and kernels of no operator are counted") {
    const Workspace workspace;
    Json trace = Json::parse(R"({"deviceProperties": [
      {"id": 0, "name": "NVIDIA T400", "totalGlobalMem": 1},
      {"id": 1, "name": "NVIDIA A100-SXM4-80GB", "totalGlobalMem": 1}], "traceEvents": [
      {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "args": {"External id": 5,
       "Input Dims": [[8, 4], [4, 6]], "Input type": ["float", "float"]}},
      {"ph": "X", "cat": "kernel", "name": "k", "dur": 2, "args": {"External id": 5, "device": 1}},
      {"ph": "X", "cat": "kernel", "name": "k", "dur": 2, "args": {"device": 1}}]})");
    workspace.write("t.json", trace.dump());
    const MeasuredTable table = read_profiler_trace((workspace.folder() / "t.json").string());
    REQUIRE(table.operators.size() == 1);
    CHECK(table.operators.front().device == "A100-SXM4-80GB");
    CHECK(table.other.at("kernels of no operator") == 1);
  }

  TEST_CASE("kernels whose duration is no number are refused with their event") {
    TraceFile trace;
    for (int i = 0; i < 3; ++i)
      trace.call("aten::mm", {{8, 4}, {4, 6}}, kHalf, kNoNumbers, {{"h16816gemm", 3.5}});
    const std::string whole = trace.text();
    const auto with = [&](const std::string& duration) {
      std::string text = whole;
      const std::size_t kernel = text.find("\"cat\":\"kernel\"");
      text.replace(text.find("3.5", kernel), 3, duration);
      const Workspace workspace;
      workspace.write("step.json", text);
      return read_profiler_trace((workspace.folder() / "step.json").string());
    };
    CHECK(with("4.5").refused.empty());
    for (const char* wrong : {"\"abc\"", "-1", "null"}) {
      const MeasuredTable table = with(wrong);
      CHECK(table.operators.size() == 1);
      REQUIRE(table.refused.size() == 1);
      // After the process's name, the operator and its launch.
      CHECK(table.refused.front().line == 4);
      CHECK(contains(table.refused.front().problem, "event 4: dur: expected microseconds, found"));
      CHECK(contains(table.refused.front().problem, wrong));
    }
  }

  TEST_CASE("files that are no such traces say what to record") {
    const Workspace workspace;
    const auto problem = [&](const std::string& text) {
      workspace.write("t.json", text);
      const std::string path = (workspace.folder() / "t.json").string();
      return error_of([&] { static_cast<void>(read_profiler_trace(path)); });
    };
    CHECK(contains(problem("{\"a\": 1}"), "has no events"));
    CHECK(contains(problem("{\"traceEvents\": [}"), "is no trace in JSON"));
    CHECK(contains(problem("op,shape\n"), "is no trace in JSON"));
    TraceFile cpu;
    cpu.call("aten::mm", {{8, 4}, {4, 6}}, kFloat, kNoNumbers, {});
    CHECK(contains(problem(cpu.text()), "has no kernels of a GPU"));
    TraceFile shapeless;
    shapeless.call("aten::mm", Json::array(), Json::array(), kNoNumbers, {{"gemm", 1}});
    CHECK(contains(problem(shapeless.text()), "record_shapes=True"));
  }

  TEST_CASE("a profile is calibrated and validated with one recorded step") {
    // Products take twice the time of the profile's.
    const DeviceProfile device =
        load_device_profile("a100-sxm-80gb", environment().profile_folders);
    const CostModel model(device);
    TraceFile trace;
    for (int i = 0; i < 40; ++i) {
      const std::int64_t m = 512 + 128 * i;
      const std::int64_t k = 256 + 64 * i;
      const MeasuredTable one = read_measured_operators(parse_csv(
          fmt::format("op,shape,dtype,device,seconds\nmatmul,{}x4096x{},bf16,a,1\n", m, k), "one"));
      const double seconds = 2 * kernel_seconds(one.operators.front(), model);
      trace.call("aten::mm", {{m, k}, {k, 4096}}, {"c10::BFloat16", "c10::BFloat16"}, kNoNumbers,
                 {{"gemm", seconds * 1e6}});
    }
    const Workspace workspace;
    workspace.write("step.json", trace.text());
    const auto median = [&](const std::string& gpu) {
      const Outcome outcome = workspace.run("validate step.json --json" + gpu);
      CAPTURE(outcome.err);
      REQUIRE(outcome.code == 0);
      return Json::parse(outcome.out).at("groups").at(0).at("median").get<double>();
    };
    CHECK(median("") == doctest::Approx(0.5));
    const Outcome fitted = workspace.run("calibrate a100-sxm-80gb step.json -o mine.yaml");
    CAPTURE(fitted.err);
    CHECK(fitted.code == 0);
    CHECK(median(" --gpu ./mine.yaml") < 0.05);
  }

  TEST_CASE("traces of PyTorch 1.8 to 1.12 name categories and ids otherwise") {
    TraceFile trace;
    trace.call("aten::mm", {{8, 4}, {4, 6}}, kHalf, kNoNumbers, {{"h16816gemm", 3.5}});
    std::string text = trace.text();
    const auto replace = [&](const std::string& from, const std::string& to) {
      for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + 1))
        text.replace(at, from.size(), to);
    };
    replace("\"cat\":\"cpu_op\"", "\"cat\":\"Operator\"");
    replace("\"cat\":\"kernel\"", "\"cat\":\"Kernel\"");
    replace("\"Input Dims\"", "\"Input dims\"");
    const std::size_t kernel = text.find("\"External id\"", text.find("\"cat\":\"Kernel\""));
    text.replace(kernel, 13, "\"external id\"");
    const Workspace workspace;
    workspace.write("step.json", text);
    const MeasuredTable table = read_profiler_trace((workspace.folder() / "step.json").string());
    REQUIRE(table.operators.size() == 1);
    CHECK(table.operators[0].text == "matmul 8x6x4");
  }

  TEST_CASE("figures of a class whose rows are all held out stay as they are") {
    TraceFile trace;
    trace.call("aten::mm", {{4096, 4096}, {4096, 4096}}, kHalf, kNoNumbers, {{"h16816gemm", 600}});
    const Workspace workspace;
    workspace.write("step.json", trace.text());
    const Outcome run =
        workspace.run("calibrate a100-sxm-80gb step.json -o mine.yaml --held-out 0.9");
    CAPTURE(run.out);
    REQUIRE(run.code == 0);
    const std::string written = workspace.read("mine.yaml");
    REQUIRE(contains(run.out, "matmul 0 of 1"));
    CHECK_FALSE(contains(written, "matmul"));
  }
}

}  // namespace tidemark::profiler_trace_test
