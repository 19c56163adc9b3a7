#include "cli/text/compare_table.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "cli/text/override_words.hpp"
#include "cli/text/wording.hpp"
#include "graph/core/printable.hpp"
#include "plots/role_style.hpp"
#include "plots/table.hpp"
#include "scenarios/studies/compare_document.hpp"

namespace tidemark {
namespace compare_table_detail {
namespace {

constexpr std::size_t kNotesWidth = 100;  // used where there is no terminal

// Formats a share with more digits the smaller it is: "12.3 %", "0.41 %", "0.0013 %".
std::string fine_percent(double share) {
  const double value = 100 * share;
  const double size = std::abs(value);
  if (size >= 10) return fmt::format("{:.1f} %", value);
  if (size >= 0.1) return fmt::format("{:.2f} %", value);
  return size < 1e-7 ? "0 %" : fmt::format("{:.2g} %", value);
}

std::string or_dash(const std::optional<double>& share) {
  return share ? fine_percent(*share) : "-";
}

class CompareTable {
 public:
  CompareTable(const Comparison& comparison, bool colour)
      : comparison_(comparison), colour_(colour), unit_(largest(comparison)) {
    for (const ComparePoint& point : comparison.points)
      longest_ = std::max(longest_, point.result.run.step);
  }
  [[nodiscard]] std::string text(std::size_t width) const;

 private:
  static Bytes largest(const Comparison& comparison) {
    Bytes most = comparison.base.run.live.bytes;
    for (const ComparePoint& point : comparison.points)
      most = std::max({most, point.budget.value_or(Bytes(0)), point.result.run.live.bytes});
    return most;
  }
  [[nodiscard]] std::vector<Column> columns() const;
  [[nodiscard]] std::vector<Cell> row(const ComparePoint& point, bool first) const;
  [[nodiscard]] std::string time(const PointResult& result) const {
    return comparison_.cost_graph ? grouped(result.run.step.count())
                                  : in_seconds(result.run.step, longest_);
  }
  // Returns "without policies", or "with lora(rank 8) alone".
  [[nodiscard]] std::string base_words() const {
    if (comparison_.common.items.empty()) return "without policies";
    return fmt::format("with {} alone", short_setting(comparison_.common));
  }
  [[nodiscard]] std::string heading() const;
  [[nodiscard]] std::string verdict() const;

  const Comparison& comparison_;
  bool colour_;
  BytesColumn unit_;
  Duration longest_{};
};

std::vector<Column> CompareTable::columns() const {
  std::vector<Column> columns{{"policies"}, {"budget", Align::kRight}, {"kept"}};
  if (!comparison_.cost_graph) columns.push_back({"planned peak", Align::kRight, 2});
  columns.push_back({"peak", Align::kRight});
  if (!comparison_.cost_graph) columns.push_back({"device memory", Align::kRight, 1});
  columns.push_back({comparison_.cost_graph ? "cost" : "step", Align::kRight});
  columns.push_back({"overhead", Align::kRight});
  if (!comparison_.cost_graph) columns.push_back({"planned", Align::kRight, 3});
  columns.push_back({"at least", Align::kRight, 3});
  columns.push_back({"gap", Align::kRight, 4});
  columns.push_back({"best"});
  columns.push_back({""});
  return columns;
}

std::vector<Cell> CompareTable::row(const ComparePoint& point, bool first) const {
  const PointResult& result = point.result;
  std::vector<Cell> cells{{first ? policies_label(point) : ""}};
  cells.push_back({point.budget ? unit_.text(*point.budget) : "-"});
  if (result.status == PointStatus::kError) {
    cells.push_back({"error", kBad});
    cells.resize(columns().size() - 1);
    cells.push_back({reason_of(point)});
    return cells;
  }
  const bool planned = !point.plan || point.plan->infeasible.empty();
  const bool kept = result.status == PointStatus::kFits;
  const bool no_room = result.status == PointStatus::kOutOfMemory;
  cells.push_back({kept ? "yes" : no_room ? "no room" : "no", kept ? kGood : kBad});
  if (!comparison_.cost_graph)
    cells.push_back({point.plan && planned ? unit_.text(point.plan->peak) : "-"});
  const bool found = result.run.live.bytes.count > 0;
  cells.push_back({found ? unit_.text(result.run.live.bytes) : "-"});
  if (!comparison_.cost_graph) cells.push_back({planned ? unit_.text(result.device_used()) : "-"});
  cells.push_back({planned ? time(result) : "-"});
  cells.push_back({or_dash(point.overhead), -1, point.best});
  if (!comparison_.cost_graph) cells.push_back({or_dash(point.planned_overhead)});
  cells.push_back({or_dash(point.least_overhead)});
  cells.push_back({or_dash(point.gap)});
  cells.push_back({point.best ? "*" : "", kGood});
  cells.push_back({reason_of(point)});
  return cells;
}

std::string CompareTable::heading() const {
  const PointResult& base = comparison_.base;
  std::string text = bold(printable(comparison_.name), colour_);
  text += fmt::format(
      ": {} {} live at the peak, {} {}", base_words(), format_bytes(base.run.live.bytes),
      comparison_.cost_graph ? "cost" : "a step of",
      comparison_.cost_graph ? grouped(base.run.step.count()) : format_duration(base.run.step));
  return text + "\n\n";
}

// Says which list keeps each budget at the least cost, and what the columns mean.
std::string CompareTable::verdict() const {
  std::vector<Bytes> budgets;
  for (const ComparePoint& point : comparison_.points) {
    if (point.budget && std::find(budgets.begin(), budgets.end(), *point.budget) == budgets.end())
      budgets.push_back(*point.budget);
  }
  std::string text = "\n";
  for (const Bytes budget : budgets) {
    const ComparePoint* cheapest = nullptr;
    for (const ComparePoint& point : comparison_.points) {
      if (point.budget != budget || point.result.status != PointStatus::kFits) continue;
      if (cheapest == nullptr || point.result.run.step < cheapest->result.run.step) {
        cheapest = &point;
      }
    }
    text += fmt::format("cheapest in {}: ", unit_.text(budget));
    text += cheapest == nullptr ? "none keeps this budget\n"
                                : fmt::format("{} ({})\n", bold(policies_label(*cheapest), colour_),
                                              or_dash(cheapest->overhead));
  }
  text += dim(
      fmt::format("overheads are shares of the step {}; at least: proven for every plan of "
                  "this class within the budget, less the time for which compute waits in that "
                  "step, which recomputation may fill (-: that time is more); gap: the kernels' "
                  "time by the plan over the least that is proven; *: no other point has both "
                  "less peak and less time\n",
                  base_words()),
      colour_);
  return text;
}

std::string CompareTable::text(std::size_t width) const {
  Table table(columns());
  const ComparePoint* last = nullptr;
  for (const ComparePoint& point : comparison_.points) {
    table.add_row(row(point, last == nullptr || last->list != point.list));
    last = &point;
  }
  return wrap_lines(heading(), width) + table.text(colour_, width) +
         wrap_lines(verdict(), width > 0 ? width : kNotesWidth);
}

}  // namespace
}  // namespace compare_table_detail

std::string policies_label(const ComparePoint& point) {
  return changed_value(point.result.overrides, "policies");
}

std::string run_label(const Comparison& comparison, const ComparePoint& point) {
  const bool several = std::any_of(
      comparison.points.begin(), comparison.points.end(), [&](const ComparePoint& other) {
        return other.list == point.list && other.evaluation != point.evaluation;
      });
  const std::string label = policies_label(point);
  const bool for_budget = point.budget && (point.plan || several);
  return for_budget ? fmt::format("{}, {}", label, format_bytes(*point.budget)) : label;
}

std::string compare_table(const Comparison& comparison, bool colour, std::size_t width) {
  return compare_table_detail::CompareTable(comparison, colour).text(width);
}

}  // namespace tidemark
