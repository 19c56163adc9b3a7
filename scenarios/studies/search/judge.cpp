#include "scenarios/studies/search/judge.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <string_view>

#include <nlohmann/json.hpp>

#include "scenarios/results/result_document.hpp"

namespace tidemark {
namespace judge_detail {
namespace {

using Json = nlohmann::ordered_json;

// Returns the bytes of device memory that a point lacks; not a number where they are not known.
double missing_memory(const PointResult& point) {
  const bool device = point.status == PointStatus::kOutOfMemory &&
                      point.run.status != RunStatus::kOutOfHostMemory &&
                      point.run.status != RunStatus::kOutOfNvme;
  const Bytes missing = point.device_that_does() - point.capacity;
  return device && missing > Bytes(0) ? static_cast<double>(missing.count) : std::nan("");
}

template <std::size_t N>
bool is_one_of(const std::array<std::string_view, N>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Figures that a run only makes larger than those of its bound, and those that it makes smaller.
constexpr std::array<std::string_view, 13> kFromBelow{"time.step",
                                                      "time.per_sample",
                                                      "time.per_token",
                                                      "memory.device_used",
                                                      "memory.peak_live",
                                                      "memory.peak_allocated",
                                                      "memory.peak_active",
                                                      "memory.peak_reserved",
                                                      "memory.smallest_capacity",
                                                      "cost.device_hours",
                                                      "cost.joules",
                                                      "cost.price",
                                                      "cost.price_per_sample"};
constexpr std::array<std::string_view, 3> kFromAbove{"throughput.samples_per_second",
                                                     "throughput.tokens_per_second",
                                                     "throughput.samples_per_second_per_gpu"};
constexpr std::array<std::string_view, 4> kExact{"memory.capacity", "memory.context",
                                                 "throughput.samples_per_step",
                                                 "throughput.tokens_per_step"};
// The memory of a pipeline is that of one stage, which need not be the one with the most live
// bytes, and stages are busy for less time than the one with the most kernels.
constexpr std::array<std::string_view, 5> kOfOneStage{"memory.peak_live", "memory.peak_allocated",
                                                      "memory.peak_active", "memory.peak_reserved",
                                                      "cost.joules"};

FigureRange range_of(std::string_view name, double bound, bool pipeline) {
  if (std::isnan(bound)) return {};
  if (name.starts_with("hardware.") || is_one_of(kExact, name))
    return {.least = bound, .most = bound};
  FigureRange range;
  const bool counts = name.starts_with("memory.") || name.starts_with("time.");
  const bool above = is_one_of(kFromAbove, name);
  const bool below = is_one_of(kFromBelow, name);
  if (counts || above || below) range.least = 0;
  if (below && !(pipeline && is_one_of(kOfOneStage, name))) range.least = bound;
  if (above && bound > 0) range.most = bound;  // 0 says that nothing is known
  return range;
}

}  // namespace
}  // namespace judge_detail

void judge(SearchPoint& point, const Goal& goal, const std::vector<Figure>& device) {
  if (point.result.status == PointStatus::kError) {
    point.objectives.assign(goal.objectives.size(), std::nan(""));
    return;
  }
  const judge_detail::Json entry = result_entry(point.result);
  const bool fits = point.result.status == PointStatus::kFits;
  const FigureLookup known = known_figures(figures_of(entry, device), fits);
  for (const Expression& objective : goal.objectives)
    point.objectives.push_back(objective.value(known));
  if (!fits) {
    point.breaks.push_back(
        {.constraint = std::nullopt, .by = judge_detail::missing_memory(point.result)});
  }
  for (std::size_t c = 0; c < goal.subject_to.size(); ++c) {
    if (!goal.subject_to[c].holds(known))
      point.breaks.push_back({.constraint = c, .by = goal.subject_to[c].excess(known)});
  }
  point.feasible =
      point.breaks.empty() && std::all_of(point.objectives.begin(), point.objectives.end(),
                                          [](double value) { return std::isfinite(value); });
}

Prospect prospect_of(const PointResult& bound, const Goal& goal,
                     const std::vector<Figure>& device) {
  const judge_detail::Json entry = result_entry(bound);
  const FigureLookup figures = figures_of(entry, device);
  const bool pipeline = bound.mesh.size(MeshDimension::kPipeline) > 1;
  const RangeLookup ranges = [&](std::string_view name) {
    return judge_detail::range_of(name, figures(name), pipeline);
  };
  Prospect prospect;
  for (const Expression& objective : goal.objectives) {
    const FigureRange range = objective.range(ranges);
    prospect.objectives.push_back(goal.maximize ? range.most : range.least);
  }
  const Bytes missing = bound.context + bound.run.most_reserved - bound.capacity;
  if (bound.run.most_reserved > Bytes(0) && missing > Bytes(0)) {
    prospect.breaks = {.constraint = std::nullopt, .by = static_cast<double>(missing.count)};
    return prospect;
  }
  if (bound.run.most_host > bound.host_capacity) {  // the device lacks nothing
    prospect.breaks = {.constraint = std::nullopt, .by = std::nan("")};
    return prospect;
  }
  for (std::size_t c = 0; c < goal.subject_to.size(); ++c) {
    if (goal.subject_to[c].can_hold(ranges)) continue;
    prospect.breaks = {.constraint = c, .by = goal.subject_to[c].least_excess(ranges)};
    break;
  }
  return prospect;
}

}  // namespace tidemark
