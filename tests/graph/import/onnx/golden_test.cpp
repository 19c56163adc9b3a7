// Exported models against the memory of the same PyTorch training step, byte by byte; the files and
// the recordings are third-party data and not part of the repository.
#if TIDEMARK_READS_ONNX
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "scenarios/read/scenario.hpp"
#include "sim/step/simulate.hpp"
#include "tests/scenarios/scenario_files.hpp"
#include "tests/support/shared_data.hpp"

namespace tidemark::test::onnx_golden_test {
namespace {

namespace fs = std::filesystem;

using Row = std::map<std::string, std::string>;

std::vector<Row> rows_of(const fs::path& path) {
  std::ifstream in(path);
  std::vector<Row> rows;
  std::vector<std::string> header;
  for (std::string line; std::getline(in, line);) {
    std::vector<std::string> fields;
    std::stringstream text(line);
    for (std::string field; std::getline(text, field, ',');)
      fields.push_back(field);
    if (header.empty()) {
      header = fields;
      continue;
    }
    Row row;
    for (std::size_t i = 0; i < fields.size() && i < header.size(); ++i)
      row[header[i]] = fields[i];
    rows.push_back(row);
  }
  return rows;
}

std::string optimizer_of(const std::string& text) {
  if (text.starts_with("AdamW")) return "{name: adamw, implementation: loop, weight_decay: 0.01}";
  if (text.starts_with("Adam")) return "{name: adam, implementation: loop, weight_decay: 0}";
  const bool momentum = text.find("momentum") != std::string::npos;
  return momentum ? "momentum" : "sgd";
}

PointResult simulated(const fs::path& onnx, const std::string& more, const std::string& optimizer,
                      const std::string& batch) {
  const Scenario scenario = decode(fmt::format(
      "model: {{onnx: {}{}}}\nhardware: h100-sxm-80gb\nallocator: ideal\ntraining: {{micro_batch: "
      "{}, "
      "precision: fp32, framework: torch-1.13-cpu, optimizer: {}, zero_grad: none, steps: 2}}\n",
      fs::weakly_canonical(onnx).string(), more, batch, optimizer));
  return simulate(scenario, build_training(scenario), {.smallest_capacity = false});
}

bool absent(const fs::path& path) {
  if (fs::exists(path)) return false;
  MESSAGE("skipped: there is no " << path.string());
  return true;
}

}  // namespace

TEST_SUITE("golden") {
  TEST_CASE("exports of PyTorch keep and peak as the recorded step does") {
    const fs::path cases = shared_path("cases/torch");
    if (absent(cases / "pairs.csv")) return;
    for (const Row& row : rows_of(cases / "pairs.csv")) {
      CAPTURE(row.at("name"));
      const PointResult point =
          simulated(cases / row.at("onnx"), "", optimizer_of(row.at("optimizer")), row.at("batch"));
      CHECK(point.parameters.count == std::stoll(row.at("param_bytes")));
      CHECK(point.buffers.count == std::stoll(row.at("buffer_bytes")));
      CHECK(point.inputs.count == std::stoll(row.at("input_bytes")));
      CHECK(point.saved_activations.count == std::stoll(row.at("saved_unique_activation_bytes")));
      CHECK(point.run.live_without_workspace.bytes.count ==
            std::stoll(row.at("peak_excluding_kernel_workspace")));
    }
  }

  TEST_CASE("files exported at a batch of 2 give the recorded step at a batch of 1") {
    const fs::path models = shared_path("models/onnx");
    if (absent(models)) return;
    struct Recorded {
      std::string_view file;
      std::int64_t saved, peak;
    };
    // ../shared/cases/torch/{resnet18_b1,resnet50_b1,mobilenet_v2_b1}_sgdm_none.json
    for (const Recorded& step : {Recorded{"resnet18.onnx", 21'620'132, 158'260'624},
                                 Recorded{"resnet50.onnx", 85'523'876, 370'802'328},
                                 Recorded{"mobilenet_v2.onnx", 77'998'756, 114'269'840}}) {
      CAPTURE(step.file);
      const PointResult point = simulated(models / step.file, ", batch_axis: 0", "momentum", "1");
      CHECK(point.saved_activations.count == step.saved);
      CHECK(point.run.live_without_workspace.bytes.count == step.peak);
    }
  }

  TEST_CASE("a batch that the exporter froze into shapes and zeros is changed as well") {
    const fs::path models = shared_path("models/onnx");
    if (absent(models)) return;
    // Bytes that do not grow: one scalar of 8 bytes per layer and 4 of the loss; BERT's 128
    // positions.
    for (const auto& [file, fixed] : {std::pair{"bert_L4C256.onnx", 4 * 8 + 4 + 128 * 8},
                                      std::pair{"vit_b_16.onnx", 12 * 8 + 4}}) {
      CAPTURE(file);
      const auto saved = [&](const std::string& batch) {
        return simulated(models / file, ", batch_axis: 0", "sgd", batch).saved_activations.count;
      };
      const std::int64_t one = saved("1");
      CHECK(saved("2") == 2 * (one - fixed) + fixed);
      CHECK(saved("3") == 3 * (one - fixed) + fixed);
    }
  }

  TEST_CASE("ConvNeXt differs from the recorded step by the noise of stochastic depth alone") {
    const fs::path models = shared_path("models/onnx");
    if (absent(models)) return;
    // Exported without stochastic depth, which keeps one number per sample for 17 of 18 blocks.
    const PointResult point =
        simulated(models / "convnext_tiny_sd0.onnx", ", batch_axis: 0", "adamw", "1");
    CHECK(point.saved_activations.count == 108'708'296 - 17 * 4);
  }

  TEST_CASE("what a torchvision model keeps grows by the same bytes with every further sample") {
    const fs::path models = shared_path("models/onnx/torchvision");
    if (absent(models)) return;
    for (const auto& entry : fs::directory_iterator(models)) {
      if (entry.path().extension() != ".onnx") continue;
      CAPTURE(entry.path().string());
      const auto saved = [&](const std::string& batch) {
        return simulated(entry.path(), ", batch_axis: 0", "sgd", batch).saved_activations.count;
      };
      const std::int64_t two = saved("2");
      const std::int64_t three = saved("3");
      CHECK(three > two);
      CHECK(saved("4") - three == three - two);
      CHECK(saved("7") - three == 4 * (three - two));
    }
  }

  TEST_CASE("every torchvision model is imported, differentiated, lowered and verified") {
    const fs::path models = shared_path("models/onnx/torchvision");
    if (absent(models)) return;
    std::size_t count = 0;
    for (const auto& entry : fs::directory_iterator(models)) {
      if (entry.path().extension() != ".onnx") continue;
      CAPTURE(entry.path().string());
      const PointResult point = simulated(entry.path(), "", "sgd", "2");
      CHECK(point.status == PointStatus::kFits);
      CHECK(point.saved_activations > Bytes(0));
      ++count;
    }
    CHECK(count >= 29);
  }
}

}  // namespace tidemark::test::onnx_golden_test
#endif
