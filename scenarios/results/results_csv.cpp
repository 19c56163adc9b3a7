#include "scenarios/results/results_csv.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "graph/core/csv.hpp"
#include "scenarios/results/document_json.hpp"
#include "scenarios/results/result_document.hpp"

namespace tidemark {
namespace results_csv_detail {
namespace {

std::string seconds_of(Duration duration) {
  return fmt::to_string(seconds(duration));
}

// The columns after the overrides; empty for a point that could not be built.
constexpr ResultColumn kColumns[] = {
    {"capacity", [](const PointResult& p) { return fmt::to_string(p.capacity.count); }},
    {"device_used", [](const PointResult& p) { return fmt::to_string(p.device_used().count); }},
    {"peak_live", [](const PointResult& p) { return fmt::to_string(p.run.live.bytes.count); }},
    {"peak_allocated",
     [](const PointResult& p) { return fmt::to_string(p.run.allocated.bytes.count); }},
    {"peak_active", [](const PointResult& p) { return fmt::to_string(p.run.active.bytes.count); }},
    {"peak_reserved",
     [](const PointResult& p) { return fmt::to_string(p.run.reserved.bytes.count); }},
    {"smallest_capacity",
     [](const PointResult& p) { return fmt::to_string(p.smallest_capacity.count); }},
    {"peak_phase", [](const PointResult& p) { return std::string(name_of(p.peak.phase)); }, false},
    {"peak_operator", [](const PointResult& p) { return p.peak.op; }, false},
    {"peak_layer", [](const PointResult& p) { return p.peak.layer; }, false},
    {"parameters", [](const PointResult& p) { return fmt::to_string(p.parameters.count); }},
    {"gradients", [](const PointResult& p) { return fmt::to_string(p.gradients.count); }},
    {"optimizer_state",
     [](const PointResult& p) { return fmt::to_string(p.optimizer_state.count); }},
    {"saved_activations",
     [](const PointResult& p) { return fmt::to_string(p.saved_activations.count); }},
    {"host_peak", [](const PointResult& p) { return fmt::to_string(p.run.host.bytes.count); }},
    {"nvme_peak", [](const PointResult& p) { return fmt::to_string(p.run.nvme.bytes.count); }},
    {"step_seconds", [](const PointResult& p) { return seconds_of(p.run.step); }},
    {"forward_seconds", [](const PointResult& p) { return seconds_of(p.run.phase[0]); }},
    {"backward_seconds", [](const PointResult& p) { return seconds_of(p.run.phase[1]); }},
    {"optimizer_seconds", [](const PointResult& p) { return seconds_of(p.run.phase[2]); }},
    {"recompute_seconds", [](const PointResult& p) { return seconds_of(p.run.recompute); }},
    {"exposed_transfer_seconds",
     [](const PointResult& p) { return seconds_of(p.run.exposed_transfer); }},
    {"samples_per_second",
     [](const PointResult& p) { return fmt::to_string(p.samples_per_second); }},
    {"tokens_per_second", [](const PointResult& p) { return fmt::to_string(p.tokens_per_second); }},
};

}  // namespace
}  // namespace results_csv_detail

std::span<const ResultColumn> result_columns() {
  return results_csv_detail::kColumns;
}

std::vector<std::string> overridden_keys(std::span<const PointResult> points) {
  std::vector<std::string> keys;
  for (const PointResult& point : points) {
    for (const auto& [key, value] : point.overrides) {
      if (std::find(keys.begin(), keys.end(), key) == keys.end()) keys.push_back(key);
    }
  }
  return keys;
}

std::string override_text(const PointResult& point, const std::string& key) {
  for (const auto& [name, value] : point.overrides) {
    if (name != key) continue;
    const bool word = value.is_scalar() && to_json(value).is_string();
    return word ? value.scalar : as_json(value);
  }
  return {};
}

std::string failure_reason(const PointResult& point) {
  if (point.status == PointStatus::kError) return point.error;
  return !point.failure ? std::string() : point.failure->reason;
}

void write_results_csv(std::ostream& out, std::span<const PointResult> points) {
  const std::vector<std::string> keys = overridden_keys(points);
  out << "name";
  for (const std::string& key : keys)
    out << ',' << csv_field(key);
  out << ",status";
  for (const ResultColumn& column : result_columns())
    out << ',' << column.name;
  out << ",reason\n";
  for (const PointResult& point : points) {
    out << csv_field(point.name);
    for (const std::string& key : keys)
      out << ',' << csv_field(override_text(point, key));
    out << ',' << name_of(point.status);
    const bool built = point.status != PointStatus::kError;
    for (const ResultColumn& column : result_columns())
      out << ',' << (built ? csv_field(column.text(point)) : "");
    out << ',' << csv_field(failure_reason(point)) << '\n';
  }
}

}  // namespace tidemark
