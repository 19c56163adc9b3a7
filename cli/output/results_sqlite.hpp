// Results as a database of SQLite, for questions about many points.
//
//   points     one row per point, the columns of results.csv without the overrides
//   overrides  what distinguishes the points: point, key, value
//   peaks      live bytes at the peak by role: point, role, bytes
//   layers     the layers with the most live bytes at the peak: point, layer, bytes
//
// Views answer what is asked most; see the list in results_sqlite.cpp, which the scenarios' README
// repeats.
#pragma once

#include <ostream>
#include <span>
#include <string_view>

#include "sim/step/simulate.hpp"

namespace tidemark {

inline constexpr std::string_view kNoSqlite =
    "this tidemark was built without SQLite; install libsqlite3-dev and build it again";
[[nodiscard]] bool has_sqlite();

// Writes the database file. Points count from 1, as the files about single points do. Throws
// UserError where has_sqlite() is false, InternalError where SQLite fails.
void write_results_sqlite(std::ostream& out, std::span<const PointResult> points);

}  // namespace tidemark
