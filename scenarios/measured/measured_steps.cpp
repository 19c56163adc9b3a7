#include "scenarios/measured/measured_steps.hpp"

#include <algorithm>
#include <array>
#include <chrono>

#include <fmt/format.h>

#include "graph/core/document.hpp"
#include "graph/core/errors.hpp"
#include "scenarios/measured/published_rows.hpp"
#include "scenarios/measured/step_tables.hpp"
#include "scenarios/studies/parallel.hpp"
#include "scenarios/studies/simulate_points.hpp"

namespace tidemark {
namespace measured_steps_detail {
namespace {

constexpr std::size_t kShownFaults = 5;
constexpr auto kTimmColumns =
    std::to_array<std::string_view>({"model", "img_size", "batch", "step_ms"});
constexpr auto kPublishedColumns =
    std::to_array<std::string_view>({"source", "gpu_profile", "metric_norm", "value_si"});

template <std::size_t N>
std::size_t columns_here(const CsvTable& table, const std::array<std::string_view, N>& columns) {
  return static_cast<std::size_t>(std::count_if(
      columns.begin(), columns.end(), [&](std::string_view column) { return table.has(column); }));
}

bool is_timm(const CsvTable& table) {
  return columns_here(table, kTimmColumns) + 1 >= kTimmColumns.size();
}

std::string_view name_of(StepMetric metric) {
  constexpr std::string_view kNames[] = {"step_time",
                                         "tokens_per_second_per_gpu",
                                         "samples_per_second_per_gpu",
                                         "peak_allocated",
                                         "peak_reserved",
                                         "peak_active",
                                         "device_used",
                                         "fits",
                                         "does_not_fit",
                                         "flops_per_gpu",
                                         "hardware_flops_per_gpu"};
  return kNames[static_cast<std::size_t>(metric)];
}

double real(Bytes bytes) {
  return static_cast<double>(bytes.count);
}

// Returns what the metric says of a simulated step.
double predicted(const MeasuredStep& step, const PointResult& point) {
  const double seconds = std::chrono::duration<double>(point.run.step).count();
  const double gpus = step.gpus;
  switch (step.metric) {
    case StepMetric::kStepTime:
      return seconds;
    case StepMetric::kTokensPerSecondPerGpu:
      return point.tokens_per_second / gpus;
    case StepMetric::kSamplesPerSecondPerGpu:
      return point.samples_per_second / gpus;
    case StepMetric::kPeakAllocated:
      return real(point.run.allocated.bytes);
    case StepMetric::kPeakReserved:
      return real(point.run.reserved.bytes);
    case StepMetric::kPeakActive:
      return real(point.run.active.bytes);
    case StepMetric::kDeviceUsed:
      return real(point.device_used());
    case StepMetric::kFits:
      return point.status == PointStatus::kFits ? 1 : 0;
    case StepMetric::kDoesNotFit:
      return point.status == PointStatus::kFits ? 0 : 1;
    case StepMetric::kFlopsPerGpu:
      return point.step_flops.count / seconds;
    case StepMetric::kHardwareFlopsPerGpu:
      return point.step_flops.count / seconds * point.hardware_flops_utilization /
             point.model_flops_utilization;
  }
  return 0;
}

ValueUnit value_unit_of(StepMetric metric) {
  switch (metric) {
    case StepMetric::kStepTime:
      return ValueUnit::kSeconds;
    case StepMetric::kPeakAllocated:
    case StepMetric::kPeakReserved:
    case StepMetric::kPeakActive:
    case StepMetric::kDeviceUsed:
      return ValueUnit::kBytes;
    default:
      return ValueUnit::kNumber;
  }
}

// Returns why the device cannot have been so fast, where the value is a time or a rate. What uses
// more than the whole peak is looked at kernel by kernel: some convolutions save multiplications.
std::optional<std::string> fault_of(const MeasuredStep& step, const PointResult& point,
                                    const Environment& environment) {
  if (value_unit_of(step.metric) == ValueUnit::kBytes || step.metric == StepMetric::kFits ||
      step.metric == StepMetric::kDoesNotFit)
    return std::nullopt;
  const double ratio = predicted(step, point) / step.value;
  const double faster = step.metric == StepMetric::kStepTime ? ratio : 1 / ratio;
  if (!(faster * point.hardware_flops_utilization > 1)) return std::nullopt;
  const double seconds = std::chrono::duration<double>(point.run.step).count() / faster;
  return impossible_step(step, seconds, environment);
}

// Returns what a row counts among over all sources; empty for a check.
std::string overall_of(const MeasuredStep& step) {
  if (step.metric == StepMetric::kFits || step.metric == StepMetric::kDoesNotFit) return {};
  return overall_group(value_unit_of(step.metric), step.gpus);
}

// Simulates one scenario; a mistake in it is the reason of the result.
PointResult simulated(const std::string& scenario, const Environment& environment) {
  PointResult failed;
  try {
    const Value document = parse_document(scenario, "measured row");
    std::vector<PointResult> points =
        simulate_points(document, environment, 1, {.smallest_capacity = false});
    return std::move(points.front());
  } catch (const UserError& error) {
    failed.error = error.problem();
  }
  return failed;
}

}  // namespace
}  // namespace measured_steps_detail

bool is_step_table(const CsvTable& table) {
  return measured_steps_detail::is_timm(table) || is_adapter_table(table) ||
         measured_steps_detail::columns_here(table, measured_steps_detail::kPublishedColumns) + 1 >=
             measured_steps_detail::kPublishedColumns.size();
}

MeasuredSteps read_measured_steps(const CsvTable& table, const StepTableOptions& options) {
  MeasuredSteps read = measured_steps_detail::is_timm(table) ? read_timm_table(table, options)
                                                             : read_published_steps(table, options);
  if (2 * read.refused.size() <= table.rows.size()) return read;
  std::string lines;
  for (std::size_t i = 0; i < std::min(read.refused.size(), measured_steps_detail::kShownFaults);
       ++i)
    lines += fmt::format("\n  line {}: {}", read.refused[i].line, read.refused[i].problem);
  throw UserError({.file = table.file}, {},
                  fmt::format("{} of {} rows are wrong, too many to go on{}", read.refused.size(),
                              table.rows.size(), lines));
}

void validate_steps(const MeasuredSteps& steps, const Environment& environment, int threads,
                    Validation& validation) {
  validation.refused.insert(validation.refused.end(), steps.refused.begin(), steps.refused.end());
  for (const auto& [reason, count] : steps.other)
    validation.other[reason] += count;
  std::map<std::string, std::size_t> place;  // by scenario
  std::vector<std::string> scenarios;
  for (const MeasuredStep& step : steps.steps) {
    if (place.try_emplace(step.scenario, scenarios.size()).second)
      scenarios.push_back(step.scenario);
  }
  std::vector<PointResult> results(scenarios.size());
  for_each_parallel(scenarios.size(), threads, [&](std::size_t i) {
    results[i] = measured_steps_detail::simulated(scenarios[i], environment);
  });
  const auto result_of = [&](const MeasuredStep& step) -> const PointResult& {
    return results[place.at(step.scenario)];
  };
  std::vector<std::optional<std::string>> faults(steps.steps.size());
  for_each_parallel(faults.size(), threads, [&](std::size_t i) {
    const MeasuredStep& step = steps.steps[i];
    faults[i] = measured_steps_detail::fault_of(step, result_of(step), environment);
  });
  for (std::size_t i = 0; i < steps.steps.size(); ++i) {
    const MeasuredStep& step = steps.steps[i];
    const PointResult& result = result_of(step);
    if (faults[i]) {
      validation.refused.push_back({.file = steps.file, .line = step.line, .problem = *faults[i]});
      continue;
    }
    if (result.status == PointStatus::kError || result.status == PointStatus::kInfeasible) {
      ++validation.other[fmt::format("cannot be built: {}", excerpt(result.error))];
      continue;
    }
    validation.rows.push_back({.group = step.group,
                               .metric = std::string(measured_steps_detail::name_of(step.metric)),
                               .unit = measured_steps_detail::value_unit_of(step.metric),
                               .text = step.text,
                               .file = steps.file,
                               .line = step.line,
                               .overall = measured_steps_detail::overall_of(step),
                               .predicted = measured_steps_detail::predicted(step, result),
                               .measured = step.value});
  }
}

}  // namespace tidemark
