#include "scenarios/studies/compare_document.hpp"

#include <set>
#include <string_view>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "graph/core/csv.hpp"
#include "scenarios/results/document_json.hpp"
#include "scenarios/results/result_document.hpp"

namespace tidemark {
namespace compare_document_detail {
namespace {

using Json = nlohmann::ordered_json;

Json or_null(const std::optional<double>& value) {
  return value ? Json(*value) : Json(nullptr);
}

std::string or_empty(const std::optional<double>& value) {
  return value ? fmt::format("{:.9g}", *value) : std::string();
}

std::string override_of(const ComparePoint& point, std::string_view key) {
  for (const auto& [name, value] : point.result.overrides) {
    if (name == key) return as_json(value);
  }
  return {};
}

}  // namespace
}  // namespace compare_document_detail

LeastOverheads least_overheads(const Comparison& comparison) {
  LeastOverheads least;
  std::set<std::string_view> classes;
  for (const ComparePoint& point : comparison.points) {
    const std::optional<double>& overhead = point.least_overhead;
    if (!point.budget || !overhead || point.plan->budget != *point.budget) continue;
    least.by_budget.emplace(*point.budget, *overhead);
    classes.insert(point.plan->schedule_class);
  }
  if (classes.size() != 1) return {};
  least.schedule_class = *classes.begin();
  return least;
}

std::string reason_of(const ComparePoint& point) {
  if (point.result.status == PointStatus::kError) return point.result.error;
  if (point.plan && !point.plan->infeasible.empty()) return point.plan->infeasible;
  return !point.result.failure ? std::string() : point.result.failure->reason;
}

compare_document_detail::Json compare_document(const Comparison& comparison) {
  std::vector<PointResult> results;
  for (const ComparePoint& point : comparison.points)
    results.push_back(point.result);
  compare_document_detail::Json document = result_document(results);
  for (std::size_t i = 0; i < comparison.points.size(); ++i) {
    const ComparePoint& point = comparison.points[i];
    document["points"][i]["compare"] = {
        {"budget", point.budget ? compare_document_detail::Json(point.budget->count)
                                : compare_document_detail::Json(nullptr)},
        {"overhead", compare_document_detail::or_null(point.overhead)},
        {"planned_overhead", compare_document_detail::or_null(point.planned_overhead)},
        {"lower_bound_overhead", compare_document_detail::or_null(point.least_overhead)},
        {"gap", compare_document_detail::or_null(point.gap)},
        {"pareto", point.best}};
  }
  document["base"] = {{"peak_live", comparison.base.run.live.bytes.count},
                      {"step", seconds(comparison.base.run.step)}};
  return document;
}

void write_compare_csv(std::ostream& out, const Comparison& comparison) {
  out << "policies,budget,status,planned_peak,peak_live,peak_reserved,device_used,step_seconds,"
         "recompute_seconds,overhead,plan_status,class,cost,base_cost,lower_bound,gap,pareto,"
         "reason\n";
  for (const ComparePoint& point : comparison.points) {
    const PointResult& result = point.result;
    out << csv_field(compare_document_detail::override_of(point, "policies")) << ','
        << (point.budget ? fmt::to_string(point.budget->count) : "") << ','
        << name_of(result.status) << ',';
    if (point.plan) out << point.plan->peak.count;
    if (result.status == PointStatus::kError) {
      out << ",,,,,";
    } else {
      out << fmt::format(",{},{},{},{},{}", result.run.live.bytes.count,
                         result.run.reserved.bytes.count, result.device_used().count,
                         seconds(result.run.step), seconds(result.run.recompute));
    }
    out << ',' << compare_document_detail::or_empty(point.overhead) << ',';
    if (point.plan) {
      out << fmt::format("{},{},{},{},{}", name_of(point.plan->status), point.plan->schedule_class,
                         point.plan->cost.count(), point.plan->base_cost.count(),
                         point.plan->lower_bound ? fmt::to_string(point.plan->lower_bound->count())
                                                 : std::string());
    } else {
      out << ",,,,";
    }
    out << fmt::format(",{},{},{}\n", compare_document_detail::or_empty(point.gap), point.best,
                       csv_field(reason_of(point)));
  }
}

}  // namespace tidemark
