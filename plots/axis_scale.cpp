#include "plots/axis_scale.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include <fmt/format.h>

namespace tidemark {
namespace axis_scale_detail {
namespace {

struct Unit {
  double size = 1;
  std::string_view name;
};

// Returns the largest unit of a family, largest first, in which `value` is at least 1.
template <std::size_t N>
Unit largest_unit(const std::array<Unit, N>& units, double value) {
  for (const Unit& unit : units) {
    if (value >= unit.size) return unit;
  }
  return units.back();
}

Unit unit_for(AxisUnit unit, double value) {
  static constexpr std::array<Unit, 5> kBytes{{{1099511627776.0, "TiB"},
                                               {1073741824.0, "GiB"},
                                               {1048576.0, "MiB"},
                                               {1024.0, "KiB"},
                                               {1.0, "B"}}};
  static constexpr std::array<Unit, 4> kSeconds{
      {{1.0, "s"}, {1e-3, "ms"}, {1e-6, "us"}, {1e-9, "ns"}}};
  switch (unit) {
    case AxisUnit::kBytes:
      return largest_unit(kBytes, value);
    case AxisUnit::kSeconds:
      return largest_unit(kSeconds, value);
    case AxisUnit::kPercent:
      return {0.01, "%"};
    case AxisUnit::kNumber:
      return {1, ""};
  }
  return {};
}

}  // namespace
}  // namespace axis_scale_detail

double round_step(double least) {
  constexpr double kSteps[] = {1, 2, 2.5, 5};
  const double power = std::pow(10.0, std::floor(std::log10(std::max(least, 1e-12))));
  for (const double step : kSteps) {
    if (step * power * (1 + 1e-9) >= least) return step * power;
  }
  return 10 * power;
}

AxisTicks round_ticks(double begin, double end, AxisUnit unit, std::size_t at_most) {
  AxisTicks ticks;
  if (!std::isfinite(begin) || !std::isfinite(end) || !(begin < end) || at_most == 0) return ticks;
  const axis_scale_detail::Unit in =
      axis_scale_detail::unit_for(unit, std::max(std::abs(begin), std::abs(end)));
  ticks.unit = in.name;
  const double first = begin / in.size;
  const double last = end / in.size;
  double step = round_step((last - first) / static_cast<double>(at_most));
  const auto count = [&] {
    const double tolerance = 1e-9;
    return std::floor(last / step + tolerance) - std::ceil(first / step - tolerance) + 1;
  };
  while (count() > static_cast<double>(at_most))
    step = round_step(step * 1.01);
  const auto from = static_cast<std::int64_t>(std::ceil(first / step - 1e-9));
  for (auto i = from; i < from + static_cast<std::int64_t>(count()); ++i) {
    const double value = static_cast<double>(i) * step;
    std::string label = fmt::format("{:.6f}", value);
    label.erase(label.find_last_not_of('0') + 1);
    if (label.back() == '.') label.pop_back();
    ticks.at.push_back(value * in.size);
    ticks.labels.push_back(label == "-0" ? "0" : std::move(label));
  }
  return ticks;
}

}  // namespace tidemark
