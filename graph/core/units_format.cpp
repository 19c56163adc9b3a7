// The writers of quantities: rounded for people, or so that they read back the same.
#include <array>
#include <cmath>
#include <cstddef>
#include <span>

#include <fmt/format.h>

#include "graph/core/units.hpp"

namespace tidemark {
namespace units_format_detail {
namespace {

struct Step {
  std::string_view unit;
  double scale = 1;
  double until = 1000;  // values that round to this much or more take the next unit
};

constexpr double kKibi = 1024;
constexpr std::array kSizeSteps{
    Step{"KiB", kKibi, kKibi},
    Step{"MiB", kKibi* kKibi, kKibi},
    Step{"GiB", kKibi* kKibi* kKibi, kKibi},
    Step{"TiB", kKibi* kKibi* kKibi* kKibi, kKibi},
    Step{"PiB", kKibi* kKibi* kKibi* kKibi* kKibi, kKibi},
    Step{"EiB", kKibi* kKibi* kKibi* kKibi* kKibi* kKibi, kKibi},
};
// Durations take the next unit from two minutes and two hours on: "75 s" says more than "1.25 min".
constexpr std::array kDurationSteps{
    Step{"ns", 1},       Step{"us", 1e3},        Step{"ms", 1e6},
    Step{"s", 1e9, 120}, Step{"min", 60e9, 120}, Step{"h", 3600e9},
};
constexpr std::array kBandwidthSteps{
    Step{"B/s", 1},    Step{"KB/s", 1e3},  Step{"MB/s", 1e6},
    Step{"GB/s", 1e9}, Step{"TB/s", 1e12}, Step{"PB/s", 1e15},
};
constexpr std::array kFlopsSteps{
    Step{"FLOP/s", 1},    Step{"KFLOP/s", 1e3},  Step{"MFLOP/s", 1e6},
    Step{"GFLOP/s", 1e9}, Step{"TFLOP/s", 1e12}, Step{"PFLOP/s", 1e15},
};
constexpr std::array kCountSteps{
    Step{"", 1}, Step{"k", 1e3}, Step{"M", 1e6}, Step{"B", 1e9}, Step{"T", 1e12},
};

// Rounds a value that is not negative to three digits, or to a whole number from 100 on.
double three_digits(double value) {
  const double step = value < 9.995 ? 0.01 : value < 99.95 ? 0.1 : 1;
  return std::round(value / step) * step;
}

std::string show(double value, std::span<const Step> steps) {
  if (!std::isfinite(value)) return fmt::format("{}", value);
  const double size = std::abs(value);
  std::size_t at = 0;
  while (at + 1 < steps.size() && three_digits(size / steps[at].scale) >= steps[at].until)
    ++at;
  const double scaled = size / steps[at].scale;
  const int decimals = scaled < 9.995 ? 2 : scaled < 99.95 ? 1 : 0;
  std::string text = fmt::format("{:.{}f}", three_digits(scaled), decimals);
  if (decimals > 0) {
    text.erase(text.find_last_not_of('0') + 1);
    if (text.back() == '.') text.pop_back();
  }
  if (value < 0 && text != "0") text.insert(0, 1, '-');
  return steps[at].unit.empty() ? text : text + ' ' + std::string(steps[at].unit);
}

// Writes the shortest digits that read back as the same rate, in the largest unit that leaves 1 or
// more.
std::string write_rate(double value, std::span<const Step> steps) {
  std::size_t at = 0;
  while (at + 1 < steps.size() && value >= steps[at + 1].scale)
    ++at;
  return fmt::format("{} {}", value / steps[at].scale, steps[at].unit);
}

}  // namespace
}  // namespace units_format_detail

std::string format_bytes(Bytes bytes) {
  if (bytes.count > -1024 && bytes.count < 1024) return fmt::format("{} B", bytes.count);
  return units_format_detail::show(static_cast<double>(bytes.count),
                                   units_format_detail::kSizeSteps);
}

std::string format_duration(Duration duration) {
  return units_format_detail::show(static_cast<double>(duration.count()),
                                   units_format_detail::kDurationSteps);
}

std::string format_bandwidth(BytesPerSecond rate) {
  return units_format_detail::show(rate.value, units_format_detail::kBandwidthSteps);
}

std::string format_flops_rate(FlopsPerSecond rate) {
  return units_format_detail::show(rate.value, units_format_detail::kFlopsSteps);
}

std::string format_count(double count) {
  return units_format_detail::show(count, units_format_detail::kCountSteps);
}

std::string write_bytes(Bytes bytes) {
  constexpr std::array<std::string_view, 6> kUnits{"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  std::int64_t count = bytes.count;
  std::size_t unit = 0;
  while (unit + 1 < kUnits.size() && count != 0 && count % 1024 == 0) {
    count /= 1024;
    ++unit;
  }
  return fmt::format("{} {}", count, kUnits[unit]);
}

std::string write_duration(Duration duration) {
  std::int64_t count = duration.count();
  std::size_t step = 0;
  while (step < 3 && count != 0 && count % 1000 == 0) {
    count /= 1000;
    ++step;
  }
  return count == 0 ? "0 s"
                    : fmt::format("{} {}", count, units_format_detail::kDurationSteps[step].unit);
}

std::string write_bandwidth(BytesPerSecond rate) {
  return units_format_detail::write_rate(rate.value, units_format_detail::kBandwidthSteps);
}

std::string write_flops_rate(FlopsPerSecond rate) {
  return units_format_detail::write_rate(rate.value, units_format_detail::kFlopsSteps);
}

}  // namespace tidemark
