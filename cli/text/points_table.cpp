#include "cli/text/points_table.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <vector>

#include <fmt/format.h>

#include "cli/text/override_words.hpp"
#include "cli/text/transfer_report.hpp"
#include "graph/core/printable.hpp"
#include "plots/role_style.hpp"
#include "plots/table.hpp"
#include "scenarios/results/compared_time.hpp"
#include "scenarios/studies/suggestions.hpp"

namespace tidemark {
namespace points_table_detail {
namespace {

// The keys that points change, and their column titles: the last word where that is clear.
struct Keys {
  std::vector<std::string> paths;
  std::vector<std::string> titles;
};

Keys keys_of(std::span<const PointResult> points) {
  Keys keys;
  for (const PointResult& point : points) {
    for (const auto& [key, value] : point.overrides) {
      if (key == "name") continue;  // is the first column
      if (std::find(keys.paths.begin(), keys.paths.end(), key) == keys.paths.end()) {
        keys.paths.push_back(key);
      }
    }
  }
  std::map<std::string, int> uses;
  for (const std::string& key : keys.paths)
    ++uses[last_word(key)];
  for (const std::string& key : keys.paths) {
    keys.titles.push_back(uses[last_word(key)] == 1 ? last_word(key) : key);
  }
  return keys;
}

// Returns the remark at the end of a row.
std::string remark(const PointResult& point) {
  if (point.status == PointStatus::kError) return point.error;
  if (point.failure) {
    const Failure& failure = *point.failure;
    if (point.status != PointStatus::kOutOfMemory) return failure.reason;
    const bool host = point.run.status == RunStatus::kOutOfHostMemory;
    const bool nvme = point.run.status == RunStatus::kOutOfNvme;
    if (host || nvme) {
      return fmt::format("{} lacks at most {}", host ? "the host" : "NVMe",
                         format_bytes(failure.short_of));
    }
    return fmt::format("no room for {}: {}", format_bytes(failure.requested),
                       place(failure.phase, failure.layer, failure.op));
  }
  if (std::string over = over_budget(point); !over.empty()) return over;
  if (point.run.retries > 0)
    return fmt::format("tight: {} retr{}", point.run.retries, point.run.retries == 1 ? "y" : "ies");
  std::string text;
  if (point.run.host.bytes.count > 0) {
    text = fmt::format("{} on the host", format_bytes(point.run.host.bytes));
  }
  if (point.run.nvme.bytes.count > 0) {
    text += fmt::format(", {} on NVMe", format_bytes(point.run.nvme.bytes));
  }
  return text;
}

class PointsTable {
 public:
  PointsTable(std::span<const PointResult> points, bool colour)
      : points_(points), colour_(colour), keys_(keys_of(points)) {}
  [[nodiscard]] std::string text(std::size_t width, TableEnd end);

 private:
  [[nodiscard]] std::vector<Column> columns() const;
  [[nodiscard]] std::vector<Cell> row(const PointResult& point) const;
  [[nodiscard]] std::string heading() const;
  [[nodiscard]] std::string verdict() const;
  [[nodiscard]] std::string best(std::string_view word, const PointResult& point) const;
  [[nodiscard]] std::string advice() const;
  [[nodiscard]] std::string setting(const PointResult& point) const;
  void choose_best();

  std::span<const PointResult> points_;
  bool colour_;
  Keys keys_;
  bool names_differ_ = false;
  bool capacities_differ_ = false;
  bool counts_tokens_ = false;
  Bytes most_bytes_;
  Duration longest_{};
  const PointResult* fastest_ = nullptr;
  const PointResult* leanest_ = nullptr;
};

void PointsTable::choose_best() {
  std::set<std::string> names;
  std::set<Bytes> capacities;
  // Points may train on different numbers of samples, and on samples of different lengths.
  const WorkUnit unit = compared_unit(points_);
  for (const PointResult& point : points_) {
    names.insert(point.name);
    if (point.status == PointStatus::kError) continue;
    capacities.insert(point.capacity);
    most_bytes_ = std::max(most_bytes_, point.device_needed());
    longest_ = std::max(longest_, point.run.step);
    counts_tokens_ = counts_tokens_ || point.tokens_per_second > 0;
    if (point.status != PointStatus::kFits) continue;
    const std::optional<double> seconds = seconds_per(unit, point);
    if (seconds && (fastest_ == nullptr || *seconds < *seconds_per(unit, *fastest_)))
      fastest_ = &point;
    if (leanest_ == nullptr || point.device_needed() < leanest_->device_needed()) leanest_ = &point;
  }
  names_differ_ = names.size() > 1;
  capacities_differ_ = capacities.size() > 1;
}

std::vector<Column> PointsTable::columns() const {
  std::vector<Column> columns;
  if (names_differ_) columns.push_back({"scenario"});
  for (std::size_t k = 0; k < keys_.paths.size(); ++k) {
    const bool numbers = std::all_of(points_.begin(), points_.end(), [&](const PointResult& p) {
      const std::string text = changed_value(p.overrides, keys_.paths[k]);
      return text.find_first_not_of("0123456789.-") == std::string::npos;
    });
    columns.push_back({keys_.titles[k], numbers ? Align::kRight : Align::kLeft});
  }
  columns.push_back({"fits"});
  columns.push_back({"device memory", Align::kRight});
  columns.push_back({"used", Align::kRight, 1});
  columns.push_back({"peak live", Align::kRight, 2});
  columns.push_back({"step", Align::kRight});
  columns.push_back({counts_tokens_ ? "tokens/s" : "samples/s", Align::kRight});
  columns.push_back({""});
  return columns;
}

std::vector<Cell> PointsTable::row(const PointResult& point) const {
  std::vector<Cell> cells;
  if (names_differ_) cells.push_back({point.name});
  for (const std::string& key : keys_.paths)
    cells.push_back({changed_value(point.overrides, key)});
  const bool fits = point.status == PointStatus::kFits;
  if (point.status == PointStatus::kError) {
    cells.push_back({"error", kBad});
    cells.resize(columns().size() - 1);
    cells.push_back({remark(point)});
    return cells;
  }
  const BytesColumn unit(most_bytes_);
  const bool fastest = &point == fastest_ && points_.size() > 1;
  cells.push_back({fits ? "yes" : "no", fits ? kGood : kBad});
  cells.push_back({unit.text(point.device_needed()), -1, &point == leanest_ && points_.size() > 1});
  cells.push_back({share_of(point.device_needed(), point.capacity), fits ? -1 : kBad});
  cells.push_back({unit.text(point.run.live.bytes)});
  cells.push_back({fits ? in_seconds(point.run.step, longest_) : "-", -1, fastest});
  const double speed = counts_tokens_ ? point.tokens_per_second : point.samples_per_second;
  cells.push_back({fits ? rate(speed) : "-", -1, fastest});
  cells.push_back({remark(point)});
  return cells;
}

std::string PointsTable::heading() const {
  const std::string count =
      fmt::format("{} point{}", points_.size(), points_.size() == 1 ? "" : "s");
  std::string text =
      names_differ_ ? count : fmt::format("{}: {}", printable(points_.front().name), count);
  text = bold(text, colour_);
  for (const PointResult& point : points_) {
    if (point.status == PointStatus::kError || capacities_differ_) continue;
    text += dim(fmt::format(", device memory {}", format_bytes(point.capacity)), colour_);
    break;
  }
  return text + "\n\n";
}

std::string PointsTable::setting(const PointResult& point) const {
  std::string text = names_differ_ ? printable(point.name) : "";
  for (std::size_t k = 0; k < keys_.paths.size(); ++k) {
    const std::string value = changed_value(point.overrides, keys_.paths[k]);
    if (value.empty()) continue;
    if (!text.empty()) text += ", ";
    text += change_in_words(keys_.paths[k], keys_.titles[k], value);
  }
  return text;
}

std::string PointsTable::verdict() const {
  const auto fits = std::count_if(points_.begin(), points_.end(), [](const PointResult& p) {
    return p.status == PointStatus::kFits;
  });
  std::string text;
  std::vector<std::string> warnings;
  for (const PointResult& point : points_) {
    for (const std::string& warning : point.warnings) {
      if (std::find(warnings.begin(), warnings.end(), warning) != warnings.end()) continue;
      warnings.push_back(warning);
      text += fmt::format("\nwarning: {}", warning);
    }
  }
  text += "\n" + fmt::format("{} of {} fit", fits, points_.size());
  const std::string close = close_runs(std::count_if(
      points_.begin(), points_.end(), [](const PointResult& p) { return is_close(p); }));
  if (!close.empty()) text += "\n" + close;
  if (fastest_ == nullptr || points_.size() == 1)
    return text + (close.empty() ? "." : "") + advice() + "\n";
  text += best("fastest", *fastest_);
  if (leanest_ != fastest_) text += best("leanest", *leanest_);
  const std::string moved = transfer_verdict(*fastest_);
  if (!moved.empty()) text += fmt::format("\nthe fastest: {}", moved);
  return text + advice() + "\n";
}

// Names a point with its speed, which compares steps of different work, and its memory.
std::string PointsTable::best(std::string_view word, const PointResult& point) const {
  const double speed = counts_tokens_ ? point.tokens_per_second : point.samples_per_second;
  return fmt::format("\n{}: {} ({}, {} {}, {})", word, bold(setting(point), colour_),
                     format_duration(point.run.step), rate(speed),
                     counts_tokens_ ? "tokens/s" : "samples/s",
                     format_bytes(point.device_needed()));
}

// Returns the cheapest change that fits, for the first points that do not.
std::string PointsTable::advice() const {
  constexpr int kShown = 3;
  std::string text;
  int helped = 0;
  for (const PointResult& point : points_) {
    if (!point.failure) continue;
    const Suggestion* helps = best_that_fits(point.failure->tried);
    if (helps == nullptr || ++helped > kShown) continue;
    text += fmt::format("\n{} would fit with {}{}", setting(point), helps->change,
                        helps->changes_numbers ? ", which changes the numbers" : "");
  }
  if (helped > kShown)
    text += fmt::format("\nfor {} more a change would do; --json has them", helped - kShown);
  return text;
}

std::string PointsTable::text(std::size_t width, TableEnd end) {
  choose_best();
  Table table(columns());
  for (const PointResult& point : points_)
    table.add_row(row(point));
  const std::string verdict_lines = end == TableEnd::kVerdict ? wrap_lines(verdict(), width) : "";
  return wrap_lines(heading(), width) + table.text(colour_, width) + verdict_lines;
}

}  // namespace
}  // namespace points_table_detail

std::string points_table(std::span<const PointResult> points, bool colour, std::size_t width,
                         TableEnd end) {
  if (points.empty()) return "no points\n";
  return points_table_detail::PointsTable(points, colour).text(width, end);
}

}  // namespace tidemark
