// The cost model against operators that others measured. The tables are third-party and stay
// outside the repository: $TIDEMARK_SHARED/cases/measured/operators, by default beside it.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "hwprofiles/cost_model.hpp"
#include "hwprofiles/interconnect_model.hpp"
#include "hwprofiles/mesh.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/shared_data.hpp"

namespace tidemark::measured_operators_test {

namespace {

std::string tables() {
  return shared_path("cases/measured/operators").string() + '/';
}

DeviceProfile profile_of(const std::string& name) {
  const std::string folder = test::source_path("hwprofiles");
  return load_device_profile(name, std::vector<std::string>{folder});
}

CostModel model_of(const std::string& name) {
  return CostModel(profile_of(name));
}

// The cells of each line, up to the first quoted one. Empty where the table is absent.
std::vector<std::vector<std::string>> read_table(const std::string& file) {
  std::vector<std::vector<std::string>> rows;
  std::ifstream in(tables() + file);
  for (std::string line; std::getline(in, line);) {
    std::istringstream cells(line.substr(0, line.find('"')));
    std::vector<std::string>& row = rows.emplace_back();
    for (std::string cell; std::getline(cells, cell, ',');)
      row.push_back(cell);
  }
  if (rows.empty()) MESSAGE("skipped: no ", tables() + file);
  return rows;
}

double seconds(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

struct Sample {
  double measured;   // s
  double predicted;  // s
};

struct Errors {
  double median;
  double mean;
};

Errors errors_of(const std::vector<Sample>& samples) {
  std::vector<double> errors;
  double sum = 0;
  for (const Sample& sample : samples) {
    errors.push_back(std::abs(sample.predicted / sample.measured - 1));
    sum += errors.back();
  }
  std::sort(errors.begin(), errors.end());
  return {.median = errors[errors.size() / 2], .mean = sum / static_cast<double>(errors.size())};
}

// LLMCompass timed one operator between two synchronisations: dispatch, launch and waiting come on
// top of the kernel. Their sum is the time of the smallest operator of the same table.
struct Timed {
  Work work;
  double measured;  // s
};

std::vector<Sample> with_host_floor(const std::vector<Timed>& timed, const CostModel& model) {
  double floor = timed.front().measured;
  for (const Timed& t : timed)
    floor = std::min(floor, t.measured);
  std::vector<Sample> samples;
  for (const Timed& t : timed) {
    Work nothing = t.work;
    nothing.flops = Flops();
    nothing.read = nothing.written = Bytes();
    nothing.extent = {};  // no tile
    const double kernel = seconds(model.duration(t.work)) - seconds(model.duration(nothing));
    samples.push_back({.measured = t.measured, .predicted = floor + kernel});
  }
  return samples;
}

// Rows of `rows, columns, giga-elements per second`, or of `elements, giga-elements per second`,
// in fp16: two bytes are read and two written per element.
std::vector<Timed> read_rates(const std::string& file, OperatorClass op_class) {
  std::vector<Timed> timed;
  for (const std::vector<std::string>& row : read_table(file)) {
    std::int64_t elements = 1;
    for (std::size_t i = 0; i + 1 < row.size(); ++i)
      elements *= std::stoll(row[i]);
    Work work;
    work.op_class = op_class;
    work.read = work.written = Bytes(2 * elements);
    if (op_class == OperatorClass::kSoftmax) {
      const std::int64_t columns = std::stoll(row[1]);
      work.extent = {elements / columns, columns, 0, 0};
    }
    const double rate = std::stod(row.back()) * 1e9;
    timed.push_back({.work = work, .measured = static_cast<double>(elements) / rate});
  }
  return timed;
}

}  // namespace

TEST_SUITE("golden") {
  TEST_CASE("LLMCompass fp16 products on A100 are predicted within a median of 3.5 percent") {
    std::vector<Timed> timed;
    for (const std::vector<std::string>& row : read_table("llmcompass-matmul-a100.csv")) {
      const std::int64_t m = std::stoll(row[0]);
      const std::int64_t k = std::stoll(row[1]);
      const std::int64_t n = std::stoll(row[2]);
      timed.push_back({.work = {.op_class = OperatorClass::kMatmul,
                                .dtype = DType::kFloat16,
                                .flops = Flops(2.0 * static_cast<double>(m * n * k)),
                                .read = Bytes(2 * (m * k + k * n)),
                                .written = Bytes(2 * m * n),
                                .extent = {m, n, k, 1}},
                       .measured = std::stod(row[3]) * 1e-3});
    }
    if (timed.empty()) return;
    const Errors errors = errors_of(with_host_floor(timed, model_of("a100-sxm-80gb")));
    MESSAGE("matmul: median ", errors.median, ", mean ", errors.mean);
    CHECK(errors.median < 0.035);
    CHECK(errors.mean < 0.035);
  }

  TEST_CASE("LLMCompass memory-bound operators on A100 are predicted within their bounds") {
    struct Table {
      const char* file;
      OperatorClass op_class;
      double median_bound;
    };
    const CostModel a100 = model_of("a100-sxm-80gb");
    for (const Table& table :
         {Table{"llmcompass-gelu-a100.csv", OperatorClass::kElementwise, 0.035},
          // Rows of 32 to 32768 elements; those above 16384 take twice as long, which is not
          // modelled.
          Table{"llmcompass-layernorm-a100.csv", OperatorClass::kNormalization, 0.13},
          Table{"llmcompass-softmax-a100.csv", OperatorClass::kSoftmax, 0.13}}) {
      const std::vector<Timed> timed = read_rates(table.file, table.op_class);
      if (timed.empty()) continue;
      const Errors errors = errors_of(with_host_floor(timed, a100));
      MESSAGE(std::string(table.file), ": median ", errors.median, ", mean ", errors.mean);
      CHECK(errors.median < table.median_bound);
    }
  }

  TEST_CASE("FlashAttention-2 on A100 and H100 is predicted within a median of 2 percent") {
    // Bar labels: 16k tokens, hidden size 2048; forward 4 * tokens * length * hidden FLOP, half of
    // it causal, backward 2.5 times as much.
    std::vector<Sample> samples;
    const CostModel a100 = model_of("a100-sxm-80gb");
    const CostModel h100 = model_of("h100-sxm-80gb");
    for (const std::vector<std::string>& row : read_table("attention-tflops.csv")) {
      const bool on_a100 = row[0] == "A100-80 SXM";
      const bool both_passes = row[2] == "fwd+bwd";
      if (!(on_a100 || row[0] == "H100-80 SXM") || row[1] != "FA2") continue;
      const std::int64_t length = std::stoll(row[5]);
      const bool causal = row[3] == "1";
      const double forward =
          4.0 * 16384 * static_cast<double>(length) * 2048 * (causal ? 0.5 : 1.0);
      Work work;
      work.op_class = OperatorClass::kAttention;
      work.dtype = DType::kBFloat16;
      work.flops = Flops(forward);
      work.extent = {length, length, std::stoll(row[4]), causal ? kAttentionCausal : 0};
      const CostModel& model = on_a100 ? a100 : h100;
      double predicted = seconds(model.duration(work));
      if (both_passes) {
        work.flops = Flops(2.5 * forward);
        work.extent[3] |= kAttentionBackward;
        predicted += seconds(model.duration(work));
      }
      samples.push_back(
          {.measured = forward * (both_passes ? 3.5 : 1.0) / (std::stod(row[6]) * 1e12),
           .predicted = predicted});
    }
    if (samples.empty()) return;
    const Errors errors = errors_of(samples);
    MESSAGE("attention: ", samples.size(), " points, median ", errors.median, ", mean ",
            errors.mean);
    CHECK(errors.median < 0.02);
  }

  TEST_CASE("all-reduces on one host are predicted within their bounds") {
    // nccl-tests: busbw = 2 (n - 1) / n * bytes / time. The profiles were fitted to these rows.
    struct System {
      const char* prefix;
      const char* gpu;
      double mean_bound;
    };
    const System systems[] = {{"8xA100 NVLink3", "a100-sxm-80gb", 0.085},
                              {"8xH200 NVLink4", "h100-sxm-80gb", 0.036}};
    const std::vector<std::vector<std::string>> rows = read_table("nccl-allreduce-busbw.csv");
    for (const System& system : systems) {
      if (rows.empty()) return;
      const DeviceProfile device = profile_of(system.gpu);
      const InterconnectModel links(device, data_mesh(8, device));
      std::vector<Sample> samples;
      for (const std::vector<std::string>& row : rows) {
        if (!row[0].starts_with(system.prefix)) continue;
        const Bytes bytes(std::stoll(row[2]));
        const double sent = 2.0 * 7 / 8 * static_cast<double>(bytes.count);
        samples.push_back({.measured = sent / (std::stod(row[3]) * 1e9),
                           .predicted = seconds(links.duration({.kind = CollectiveKind::kAllReduce,
                                                                .group = MeshDimension::kData,
                                                                .bytes = bytes}))});
      }
      REQUIRE(samples.size() == 20);
      const Errors errors = errors_of(samples);
      MESSAGE(std::string(system.prefix), ": median ", errors.median, ", mean ", errors.mean);
      CHECK(errors.mean < system.mean_bound);
    }
  }
}

}  // namespace tidemark::measured_operators_test
