#include "cli/text/fit_table.hpp"

#include <algorithm>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "cli/text/override_words.hpp"
#include "cli/text/wording.hpp"
#include "plots/role_style.hpp"
#include "plots/table.hpp"
#include "scenarios/results/compared_time.hpp"

namespace tidemark {
namespace fit_table_detail {
namespace {

const PointResult* best_of(const PointFit& row) {
  return row.fit.largest ? &row.fit.tried[*row.fit.largest].result : nullptr;
}

// Says what stops the search for a larger value.
std::string end_of(const PointFit& row, const FitOptions& options) {
  if (!row.error.empty()) return row.error;
  if (!row.fit.largest) {
    const FitPoint& first = row.fit.tried.front();
    return fmt::format("{} does not: {}", first.value, reason_of(first.result));
  }
  if (!row.fit.next) return fmt::format("the search ends here (--limit {})", options.limit);
  const FitPoint& next = row.fit.tried[*row.fit.next];
  const bool built = next.result.status != PointStatus::kError;
  return fmt::format("{} {}: {}", next.value, built ? "does not" : "cannot be built",
                     reason_of(next.result));
}

std::vector<std::string> keys_of(std::span<const PointFit> fits) {
  std::vector<std::string> keys;
  for (const PointFit& row : fits) {
    for (const Override& change : row.overrides) {
      const bool known = std::find(keys.begin(), keys.end(), change.key) != keys.end();
      if (!known && change.key != "name") keys.push_back(change.key);
    }
  }
  return keys;
}

}  // namespace
}  // namespace fit_table_detail

std::string reason_of(const PointResult& point) {
  if (point.status == PointStatus::kError) return point.error;
  return !point.failure ? std::string(name_of(point.status)) : point.failure->reason;
}

std::string fit_table(std::span<const PointFit> fits, const FitOptions& options, bool colour,
                      std::size_t width) {
  const std::vector<std::string> keys = fit_table_detail::keys_of(fits);
  std::vector<PointResult> best;  // the largest that fits of each point that has one
  for (const PointFit& row : fits) {
    if (const PointResult* point = fit_table_detail::best_of(row)) best.push_back(*point);
  }
  const bool tokens = std::any_of(best.begin(), best.end(), [](const PointResult& point) {
    return point.tokens_per_second > 0;
  });
  std::vector<Column> columns;
  columns.reserve(keys.size() + 6);
  for (const std::string& key : keys)
    columns.push_back({last_word(key)});
  columns.push_back({last_word(options.key), Align::kRight});
  columns.push_back({"device memory", Align::kRight});
  columns.push_back({"used", Align::kRight, 1});
  columns.push_back({"step", Align::kRight});
  columns.push_back({tokens ? "tokens/s" : "samples/s", Align::kRight});
  columns.push_back({"the next value"});
  Table table(std::move(columns));
  std::size_t fitting = 0;
  for (const PointFit& row : fits) {
    std::vector<Cell> cells;
    cells.reserve(keys.size() + 6);
    for (const std::string& key : keys)
      cells.push_back({changed_value(row.overrides, key)});
    if (const PointResult* point = fit_table_detail::best_of(row)) {
      ++fitting;
      cells.push_back({grouped(row.fit.tried[*row.fit.largest].value), -1, true});
      cells.push_back({format_bytes(point->device_needed())});
      cells.push_back({share_of(point->device_needed(), point->capacity)});
      cells.push_back({format_duration(point->run.step)});
      cells.push_back({rate(tokens ? point->tokens_per_second : point->samples_per_second)});
    } else {
      cells.push_back({"none", kBad});
      cells.resize(keys.size() + 5);
    }
    cells.push_back({fit_table_detail::end_of(row, options)});
    table.add_row(std::move(cells));
  }
  std::string text =
      bold(fmt::format("The largest {} that fits, of {} points", options.key, fits.size()),
           colour) +
      "\n\n" + table.text(colour, width) + '\n';
  if (fitting < fits.size())
    text += fmt::format("{} of {} points fit with some value.\n", fitting, fits.size());
  const WorkUnit unit = compared_unit(best);
  const PointResult* fastest = nullptr;
  for (const PointResult& point : best) {
    const std::optional<double> seconds = seconds_per(unit, point);
    if (seconds && (fastest == nullptr || *seconds < *seconds_per(unit, *fastest)))
      fastest = &point;
  }
  if (fastest != nullptr && best.size() > 1) {
    const std::string rates = tokens ? rate(fastest->tokens_per_second) + " tokens/s"
                                     : rate(fastest->samples_per_second) + " samples/s";
    text += fmt::format("fastest: {} ({})\n",
                        bold(changes_in_words(fastest->overrides, {.bare_hardware = true}), colour),
                        rates);
  }
  return text;
}

}  // namespace tidemark
