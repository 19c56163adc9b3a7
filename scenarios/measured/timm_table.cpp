// timm's training benchmark: AMP (fp16 autocast with a loss scaler), SGD with momentum.
#include <algorithm>
#include <array>
#include <filesystem>

#include <fmt/format.h>

#include "graph/core/errors.hpp"
#include "graph/core/piped_files.hpp"
#include "hwprofiles/measured/row_reader.hpp"
#include "scenarios/measured/step_tables.hpp"

namespace tidemark {
namespace timm_table_detail {
namespace {

namespace fs = std::filesystem;

// Batches that the benchmark tries, largest first.
constexpr std::array<std::int64_t, 18> kBatchLadder = {512, 384, 256, 192, 128, 96, 64, 48, 32,
                                                       24,  16,  12,  8,   6,   4,  3,  2,  1};
constexpr const char* kModels = "models/onnx/torchvision";

// Returns the folder of models; empty: there is none.
fs::path models_folder(const std::string& table, const std::string& given) {
  if (!given.empty()) return given;
  std::error_code error;
  for (fs::path at = fs::absolute(table, error).parent_path(); !at.empty(); at = at.parent_path()) {
    if (fs::is_directory(at / kModels, error)) return at / kModels;
    if (at == at.root_path()) break;
  }
  return {};
}

// The table's name says the device and the layout: timm-train-rtx3090-nhwc.csv.gz.
std::string layout_of(const std::string& file) {
  const std::string name = fs::path(file).filename().string();
  return name.find("nhwc") != std::string::npos ? "channels_last" : "contiguous";
}
std::string device_of(const std::string& file) {
  const std::string name = fs::path(file).filename().string();
  constexpr std::string_view kBefore = "timm-train-";
  if (!name.starts_with(kBefore)) return "rtx-3090-24gb";
  return name.substr(kBefore.size(), name.find('-', kBefore.size()) - kBefore.size());
}

std::string quoted_path(const fs::path& path) {
  std::string text = "'";
  for (const char c : path.string())
    text += c == '\'' ? std::string("''") : std::string(1, c);
  return text + "'";
}

std::string scenario_of(const fs::path& model, const std::string& gpu, std::int64_t batch,
                        const std::string& layout) {
  return fmt::format(
      "{{version: 1, model: {{onnx: {}, batch_axis: 0}}, hardware: {}, training: {{micro_batch: "
      "{}, "
      "precision: fp16_autocast, optimizer: {{name: sgd, momentum: 0.9}}, framework: "
      "torch-1.13-cuda, loss_scale: dynamic, memory_format: {}}}}}",
      quoted_path(model), quoted_path(gpu), batch, layout);
}

}  // namespace
}  // namespace timm_table_detail

MeasuredSteps read_timm_table(const CsvTable& table, const StepTableOptions& options) {
  if (is_open_file_of_process(table.file)) {
    throw UserError({.file = table.file}, {},
                    "the name of timm's table says the device and the memory format, as in "
                    "timm-train-rtx3090-nhwc.csv: give the file, not a pipe");
  }
  MeasuredSteps result{.file = table.file, .steps = {}, .refused = {}, .other = {}};
  const std::filesystem::path folder =
      timm_table_detail::models_folder(table.file, options.models_folder);
  const std::string layout = timm_table_detail::layout_of(table.file);
  const std::string gpu =
      options.gpu.empty() ? timm_table_detail::device_of(table.file) : options.gpu;
  const std::string group =
      fmt::format("timm {} {}", timm_table_detail::device_of(table.file), layout);
  for (const CsvRow& row : table.rows) {
    const RowReader reader(table, row);
    try {
      const std::string& name = reader.text("model");
      const std::int64_t batch = reader.count("batch");
      const double seconds = reader.positive("step_ms") * 1e-3;
      const std::filesystem::path model = folder / (name + ".onnx");
      std::error_code error;
      if (folder.empty() || !std::filesystem::is_regular_file(model, error)) {
        ++result.other["models of which there is no NAME.onnx"];
        continue;
      }
      const auto add = [&](std::int64_t of, StepMetric metric, double value) {
        result.steps.push_back({.group = group,
                                .text = fmt::format("{}, batch {}", name, of),
                                .line = row.line,
                                .scenario = timm_table_detail::scenario_of(model, gpu, of, layout),
                                .metric = metric,
                                .value = value,
                                .model = name,
                                .device = timm_table_detail::device_of(table.file)});
      };
      add(batch, StepMetric::kStepTime, seconds);
      add(batch, StepMetric::kFits, 1);
      const auto* const place = std::find(timm_table_detail::kBatchLadder.begin(),
                                          timm_table_detail::kBatchLadder.end(), batch);
      if (place != timm_table_detail::kBatchLadder.end() &&
          place != timm_table_detail::kBatchLadder.begin())
        add(*(place - 1), StepMetric::kDoesNotFit, 1);
    } catch (const RowFault& fault) {
      result.refused.push_back({.file = table.file, .line = row.line, .problem = fault.problem});
    }
  }
  return result;
}

}  // namespace tidemark
