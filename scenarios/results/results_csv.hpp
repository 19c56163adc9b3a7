// Results as a table: for spreadsheets, and for databases.
#pragma once

#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/step/simulate.hpp"

namespace tidemark {

// A column of figures: bytes, seconds and rates as numbers, names as text.
struct ResultColumn {
  std::string_view name;
  std::string (*text)(const PointResult&);  // text for a point that could be built
  bool is_number = true;
};
[[nodiscard]] std::span<const ResultColumn> result_columns();

// Returns the keys that any point overrides, in the order of their first appearance.
[[nodiscard]] std::vector<std::string> overridden_keys(std::span<const PointResult> points);
// Returns what the point overrides a key with, mappings and lists as JSON; empty where it does not.
[[nodiscard]] std::string override_text(const PointResult& point, const std::string& key);
// Returns the reason why a point does not fit or could not be built; empty where it fits.
[[nodiscard]] std::string failure_reason(const PointResult& point);

// Writes one row per point: its name, a column per key that any point overrides, status,
// result_columns(), and the reason.
void write_results_csv(std::ostream& out, std::span<const PointResult> points);

}  // namespace tidemark
