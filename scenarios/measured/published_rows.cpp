#include "scenarios/measured/published_rows.hpp"

#include <array>
#include <limits>
#include <utility>

#include <fmt/format.h>

namespace tidemark {
namespace published_rows_detail {
namespace {

struct MetricName {
  std::string_view name;
  StepMetric metric;
  bool memory;
};
constexpr auto kMetrics = std::to_array<MetricName>(
    {{"step_time", StepMetric::kStepTime, false},
     {"tokens_per_second_per_gpu", StepMetric::kTokensPerSecondPerGpu, false},
     {"samples_per_second_per_gpu", StepMetric::kSamplesPerSecondPerGpu, false},
     {"tflops_per_gpu", StepMetric::kFlopsPerGpu, false},
     {"peak_allocated", StepMetric::kPeakAllocated, true},
     {"peak_reserved", StepMetric::kPeakReserved, true},
     {"peak_active", StepMetric::kPeakActive, true},
     {"device_used", StepMetric::kDeviceUsed, true},
     {"out_of_memory", StepMetric::kDoesNotFit, true},
     // torchtune's, which logs what is active.
     {"peak_memory", StepMetric::kPeakActive, true},
     // Tables of one GPU need no more.
     {"step_s", StepMetric::kStepTime, false},
     {"tokens_per_s", StepMetric::kTokensPerSecondPerGpu, false},
     {"samples_per_s", StepMetric::kSamplesPerSecondPerGpu, false}});

const MetricName& metric_called(const std::string& name) {
  for (const MetricName& known : kMetrics) {
    if (known.name == name) return known;
  }
  throw NotMapped{fmt::format("metric {}", name)};
}

// A rate may count what is recomputed.
StepMetric kind_of(StepMetric metric, const CsvTable& table, const RowReader& row) {
  const bool recomputed = metric == StepMetric::kFlopsPerGpu && table.has("flops_kind") &&
                          row.text("flops_kind") == "hardware";
  return recomputed ? StepMetric::kHardwareFlopsPerGpu : metric;
}

int gpus_of(const RowReader& row) {
  const std::int64_t gpus = row.count("n_gpus");
  if (gpus > std::numeric_limits<int>::max()) throw RowFault{fmt::format("{} GPUs", gpus)};
  return static_cast<int>(gpus);
}

std::string source_of(const std::string& source) {
  return source.substr(0, source.find_first_of("@ "));
}

}  // namespace
}  // namespace published_rows_detail

std::string hardware_of(const PublishedDevice& device) {
  std::string gpu;  // quoted
  for (const char c : device.gpu)
    gpu += c == '\'' ? std::string("''") : std::string(1, c);
  return fmt::format("{{gpu: '{}', count: {}{}}}", gpu, device.count,
                     device.room ? ", hbm: {capacity: 8TiB}" : "");
}

std::int64_t ranks_of(const RowReader& row, const char* column) {
  return row.text(column).empty() ? 1 : row.count(column);
}

std::string optimizer_of(const RowReader& row) {
  const std::string& published = row.text("optimizer_norm");
  if (published.empty()) return "adamw";
  if (published == "momentum") return "{name: sgd, momentum: 0.9}";
  constexpr auto kSame = std::to_array<std::string_view>(
      {"adam", "adamw", "adamw_8bit", "adafactor", "lamb", "lion", "muon", "sgd"});
  for (const std::string_view same : kSame) {
    if (published == same) return published;
  }
  throw NotMapped{fmt::format("optimizer {}", published)};
}

std::string precision_of(const RowReader& row) {
  constexpr auto kPrecisions = std::to_array<std::pair<std::string_view, std::string_view>>(
      {{"fp32", "fp32"},
       {"tf32", "tf32"},
       {"fp16_autocast", "fp16_autocast"},
       {"bf16_autocast", "bf16_autocast"},
       {"fp16_mixed", "fp16_mixed"},
       {"bf16_mixed", "bf16_mixed"},
       {"fp16_or_bf16_mixed", "bf16_mixed"},
       {"fp8_mixed", "fp8_mixed"},
       {"bf16", "bf16"},
       {"fp16", "fp16"},
       {"bf16_fsdp", "fp32"}});
  for (const auto& [published, precision] : kPrecisions) {
    if (row.text("precision_norm") == published) return std::string(precision);
  }
  throw NotMapped{fmt::format("precision {}", row.text("precision_norm"))};
}

std::string recompute_of(const RowReader& row) {
  constexpr auto kPolicies = std::to_array<std::pair<std::string_view, std::string_view>>(
      {{"none", ""},
       {"full", "checkpoint_every: {period: 1}"},
       {"selective", "megatron_selective: {}"},
       {"selective_attention", "megatron_selective: {}"},
       {"selective_layer", "checkpoint: {every_other: 2}"},
       {"selective_op", "selective: {save: [attention, linear], every_other: [linear]}"}});
  for (const auto& [published, policy] : kPolicies) {
    if (row.text("recompute_norm") == published) return std::string(policy);
  }
  throw NotMapped{fmt::format("recomputation {}", row.text("recompute_norm"))};
}

std::string policy_list(const std::vector<std::string>& policies) {
  return fmt::format("[{}]", fmt::join(policies, ", "));
}

MeasuredSteps read_published_rows(const CsvTable& table, const StepTableOptions& options,
                                  const PublishedScenario& scenario_of,
                                  const PublishedColumns& columns) {
  MeasuredSteps result{.file = table.file, .steps = {}, .refused = {}, .other = {}};
  for (const CsvRow& row : table.rows) {
    const RowReader reader(table, row);
    try {
      const published_rows_detail::MetricName& metric =
          published_rows_detail::metric_called(reader.text(columns.metric));
      if (columns.marks_usable &&
          reader.text(metric.memory ? "usable_memory" : "usable_time") != "1")
        throw NotMapped{"rows marked as not usable for their metric"};
      if (reader.text("value_si").empty()) throw NotMapped{"values without a unit"};
      const double value = reader.positive("value_si");
      const PublishedDevice device{.gpu = !options.gpu.empty() ? options.gpu
                                          : columns.gpu        ? columns.gpu(reader)
                                                               : reader.text("gpu_profile"),
                                   .count = published_rows_detail::gpus_of(reader),
                                   .room = metric.metric != StepMetric::kDoesNotFit};
      if (device.gpu.empty() || device.gpu == "unknown") throw NotMapped{"no GPU stated"};
      MeasuredStep step{
          .group = fmt::format("{} {}", published_rows_detail::source_of(reader.text("source")),
                               reader.text(columns.kind)),
          .text =
              fmt::format("{} on {} {}", reader.text("model"), device.count, reader.text("gpu")),
          .line = row.line,
          .scenario = scenario_of(reader, device),
          .metric = published_rows_detail::kind_of(metric.metric, table, reader),
          .value = value,
          .gpus = device.count};
      result.steps.push_back(std::move(step));
    } catch (const RowFault& fault) {
      result.refused.push_back({.file = table.file, .line = row.line, .problem = fault.problem});
    } catch (const NotMapped& reason) {
      ++result.other[reason.reason];
    }
  }
  return result;
}

}  // namespace tidemark
