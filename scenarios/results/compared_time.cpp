#include "scenarios/results/compared_time.hpp"

#include <set>

namespace tidemark {

WorkUnit compared_unit(std::span<const PointResult> points) {
  std::set<double> samples;
  std::set<double> tokens;
  std::set<double> lengths;  // tokens of a sample
  for (const PointResult& point : points) {
    if (point.status == PointStatus::kError) continue;
    samples.insert(point.samples);
    tokens.insert(point.tokens);
    lengths.insert(point.samples > 0 ? point.tokens / point.samples : 0);
  }
  if (samples.size() <= 1 && tokens.size() <= 1) return WorkUnit::kStep;
  const bool some_without = tokens.count(0) > 0;
  return lengths.size() > 1 && !some_without ? WorkUnit::kThousandTokens : WorkUnit::kSample;
}

std::string_view name_of(WorkUnit unit) {
  switch (unit) {
    case WorkUnit::kStep:
      return "a step";
    case WorkUnit::kSample:
      return "a sample";
    case WorkUnit::kThousandTokens:
      return "1000 tokens";
  }
  return "";
}

std::optional<double> seconds_per(WorkUnit unit, const PointResult& point) {
  constexpr double kThousand = 1e3;
  const double step = static_cast<double>(point.run.step.count()) * 1e-9;
  double units = 1;
  if (unit == WorkUnit::kSample) units = point.samples;
  if (unit == WorkUnit::kThousandTokens) units = point.tokens / kThousand;
  if (units <= 0) return std::nullopt;
  return step / units;
}

}  // namespace tidemark
