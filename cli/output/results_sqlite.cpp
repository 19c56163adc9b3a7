#include "cli/output/results_sqlite.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "graph/core/errors.hpp"
#include "scenarios/results/document_json.hpp"
#include "scenarios/results/results_csv.hpp"

#ifdef TIDEMARK_SQLITE
#include <sqlite3.h>
#endif

namespace tidemark {

#ifdef TIDEMARK_SQLITE

namespace results_sqlite_detail {
namespace {

constexpr std::string_view kTables = R"(
CREATE TABLE overrides(point INTEGER, key TEXT, value, PRIMARY KEY(point, key))
  WITHOUT ROWID;
CREATE TABLE peaks(point INTEGER, role TEXT, bytes INTEGER, PRIMARY KEY(point, role))
  WITHOUT ROWID;
CREATE TABLE layers(point INTEGER, layer TEXT, bytes INTEGER, PRIMARY KEY(point, layer))
  WITHOUT ROWID;
)";

// Which is fastest, or takes least memory? What does a compromise look like? What does not fit, and
// by how much? What is in memory at the peak, and in which layers?
constexpr std::string_view kViews = R"(
CREATE VIEW fastest AS
  SELECT * FROM settings WHERE status = 'fits' ORDER BY samples_per_second DESC, point;
CREATE VIEW smallest AS
  SELECT * FROM settings WHERE status = 'fits' ORDER BY device_used, point;
CREATE VIEW front AS
  SELECT * FROM settings WHERE point IN (
    SELECT point FROM (
      SELECT point, device_used, MIN(device_used) OVER (
        ORDER BY samples_per_second DESC, device_used, point
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS of_faster
      FROM points WHERE status = 'fits')
    WHERE of_faster IS NULL OR device_used < of_faster)
  ORDER BY samples_per_second DESC;
CREATE VIEW does_not_fit AS
  SELECT *, NULLIF(smallest_capacity, 0) - capacity AS missing FROM settings
  WHERE status <> 'fits' ORDER BY point;
CREATE VIEW at_the_peak AS
  SELECT point, role, bytes, CAST(bytes AS REAL) / peak_live AS share
  FROM peaks JOIN points USING(point) ORDER BY point, bytes DESC;
CREATE VIEW layers_at_the_peak AS
  SELECT point, layer, bytes, CAST(bytes AS REAL) / peak_live AS share
  FROM layers JOIN points USING(point) ORDER BY point, bytes DESC;
)";

constexpr double kExact = 9e15;  // integers below it have a double of their own

// Returns a text between quotes, those inside of it doubled: "a name", 'a text'.
std::string sql_quoted(std::string_view text, char quote) {
  std::string quoted(1, quote);
  for (const char c : text)
    quoted.append(c == quote ? 2 : 1, c);
  return quoted + quote;
}

std::string sql_name(std::string_view name) {
  return sql_quoted(name, '"');
}

// A value of a row: a text, which is a number where the column's type makes it one, or a number.
struct Cell {
  // NOLINTNEXTLINE(google-explicit-constructor): rows are lists of texts
  Cell(std::string value) : text(std::move(value)) {}
  Cell(std::string value, double as_number) : text(std::move(value)), number(as_number) {}

  std::string text;  // empty: null
  std::optional<double> number;
};

class Database {
 public:
  Database() {
    sqlite3* opened = nullptr;
    const int status = sqlite3_open(":memory:", &opened);
    database_.reset(opened);
    check(status);
  }

  void run(const std::string& sql) {
    check(sqlite3_exec(database_.get(), sql.c_str(), nullptr, nullptr, nullptr));
  }

  // Adds a row; the columns' types make numbers of texts. Empty texts are null.
  void insert(std::string_view table, const std::vector<Cell>& row) {
    if (table != table_) {
      std::string marks;
      for (std::size_t i = 0; i < row.size(); ++i)
        marks += i == 0 ? "?" : ", ?";
      const std::string sql = fmt::format("INSERT INTO {} VALUES ({})", table, marks);
      sqlite3_stmt* prepared = nullptr;
      check(sqlite3_prepare_v2(database_.get(), sql.c_str(), -1, &prepared, nullptr));
      insert_.reset(prepared);
      table_ = table;
    }
    for (std::size_t i = 0; i < row.size(); ++i) {
      const int column = static_cast<int>(i) + 1;
      const std::string& text = row[i].text;
      if (text.empty()) {
        check(sqlite3_bind_null(insert_.get(), column));
      } else if (row[i].number) {
        const double number = *row[i].number;
        check(number == std::floor(number) && std::abs(number) < kExact
                  ? sqlite3_bind_int64(insert_.get(), column, static_cast<sqlite3_int64>(number))
                  : sqlite3_bind_double(insert_.get(), column, number));
      } else {
        check(sqlite3_bind_text(insert_.get(), column, text.data(), static_cast<int>(text.size()),
                                SQLITE_STATIC));
      }
    }
    const int status = sqlite3_step(insert_.get());
    if (status != SQLITE_DONE) check(status);
    check(sqlite3_reset(insert_.get()));
  }

  void write(std::ostream& out) {
    insert_.reset();
    sqlite3_int64 size = 0;
    const std::unique_ptr<unsigned char, decltype(&sqlite3_free)> bytes(
        sqlite3_serialize(database_.get(), "main", &size, 0), &sqlite3_free);
    if (bytes == nullptr) throw InternalError("SQLite: no memory for the database");
    // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast): streams take char
    out.write(reinterpret_cast<const char*>(bytes.get()), size);
  }

 private:
  void check(int status) const {
    if (status == SQLITE_OK) return;
    throw InternalError(fmt::format("SQLite: {}", sqlite3_errmsg(database_.get())));
  }

  std::unique_ptr<sqlite3, decltype(&sqlite3_close)> database_{nullptr, &sqlite3_close};
  std::unique_ptr<sqlite3_stmt, decltype(&sqlite3_finalize)> insert_{nullptr, &sqlite3_finalize};
  std::string table_;  // of the statement
};

std::string points_table() {
  std::string columns = "point INTEGER PRIMARY KEY, name TEXT, status TEXT";
  for (const ResultColumn& column : result_columns())
    columns += fmt::format(", {} {}", sql_name(column.name), column.is_number ? "NUMERIC" : "TEXT");
  return fmt::format("CREATE TABLE points({}, reason TEXT);", columns);
}

// One row per point with a column for each key that is overridden, as "training.micro_batch".
std::string settings_view(std::span<const PointResult> points) {
  std::string keys;
  for (const std::string& key : overridden_keys(points)) {
    if (key == "name") continue;  // it is a column of the points
    keys += fmt::format(
        ", (SELECT value FROM overrides o WHERE o.point = p.point AND o.key = {}) AS {}",
        sql_quoted(key, '\''), sql_name(key));
  }
  std::string columns = ", p.name, p.status";
  for (const ResultColumn& column : result_columns())
    columns += fmt::format(", p.{}", sql_name(column.name));
  return fmt::format("CREATE VIEW settings AS SELECT p.point{}{}, p.reason FROM points p;", keys,
                     columns);
}

void insert_point(Database& database, const std::string& number, const PointResult& point) {
  std::vector<Cell> row{number, point.name, std::string(name_of(point.status))};
  for (const ResultColumn& column : result_columns())
    row.emplace_back(point.status == PointStatus::kError ? std::string() : column.text(point));
  row.emplace_back(failure_reason(point));
  database.insert("points", row);
}

void insert_overrides(Database& database, const std::string& number, const PointResult& point) {
  for (const Override& change : point.overrides) {
    const std::string text = override_text(point, change.key);
    const nlohmann::ordered_json value = to_json(change.value);
    database.insert(
        "overrides",
        {number, change.key, value.is_number() ? Cell(text, value.get<double>()) : Cell(text)});
  }
}

void insert_peaks(Database& database, const std::string& number, const PointResult& point) {
  for (std::size_t r = 0; r < point.peak.by_role.size(); ++r) {
    const Bytes bytes = point.peak.by_role[r];
    if (bytes == Bytes(0)) continue;
    database.insert(
        "peaks", {number, std::string(name_of(static_cast<Role>(r))), fmt::to_string(bytes.count)});
  }
}

void insert_layers(Database& database, const std::string& number, const PointResult& point) {
  const auto& layers = point.peak.by_layer;
  for (std::size_t l = 0; l < std::min(layers.size(), kLargestLayers); ++l) {
    const auto& [layer, bytes] = layers[l];
    database.insert("layers",
                    {number, layer.empty() ? "(none)" : layer, fmt::to_string(bytes.count)});
  }
}

// Fills one table after the other, so that each has one statement.
void insert_all(Database& database, std::span<const PointResult> points) {
  for (const auto insert : {insert_point, insert_overrides, insert_peaks, insert_layers}) {
    for (std::size_t i = 0; i < points.size(); ++i)
      insert(database, fmt::to_string(i + 1), points[i]);
  }
}

}  // namespace
}  // namespace results_sqlite_detail

bool has_sqlite() {
  return true;
}

void write_results_sqlite(std::ostream& out, std::span<const PointResult> points) {
  results_sqlite_detail::Database database;
  database.run(results_sqlite_detail::points_table() + std::string(results_sqlite_detail::kTables) +
               results_sqlite_detail::settings_view(points) +
               std::string(results_sqlite_detail::kViews) + "BEGIN;");
  results_sqlite_detail::insert_all(database, points);
  database.run("COMMIT;");
  database.write(out);
}

#else

bool has_sqlite() {
  return false;
}

void write_results_sqlite(std::ostream& /*out*/, std::span<const PointResult> /*points*/) {
  throw UserError(std::string(kNoSqlite));
}

#endif

}  // namespace tidemark
