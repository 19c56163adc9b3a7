#include "hwprofiles/measured/csv_table.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

#include <fmt/format.h>

#include "graph/core/document.hpp"
#include "graph/core/errors.hpp"

namespace tidemark {
namespace csv_table_detail {
namespace {

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t'))
    text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t' || text.back() == '\r'))
    text.remove_suffix(1);
  return text;
}

// Splits one line; a quote that is never closed ends with the line.
std::vector<std::string> cells_of(std::string_view line) {
  std::vector<std::string> cells;
  std::size_t at = 0;
  while (true) {
    std::string cell;
    std::size_t end = at;
    while (end < line.size() && line[end] == ' ')
      ++end;
    if (end < line.size() && line[end] == '"') {
      for (++end; end < line.size(); ++end) {
        if (line[end] != '"') {
          cell += line[end];
        } else if (end + 1 < line.size() && line[end + 1] == '"') {
          cell += line[++end];
        } else {
          break;
        }
      }
      end = std::min(line.find(',', end), line.size());
    } else {
      end = std::min(line.find(',', at), line.size());
      cell = trimmed(line.substr(at, end - at));
    }
    cells.push_back(std::move(cell));
    if (end >= line.size()) return cells;
    at = end + 1;
  }
}

void check_header(const CsvTable& table) {
  for (auto name = table.header.begin(); name != table.header.end(); ++name) {
    if (name->empty() || std::find(table.header.begin(), name, *name) == name) continue;
    throw UserError({.file = table.file, .line = 1}, {},
                    fmt::format("the column {} occurs twice", quoted_excerpt(*name)));
  }
}

// A field beyond the header's is a number with a decimal comma, or a name with a comma in it.
void check_row(const CsvTable& table, const std::vector<std::string>& cells, int line) {
  if (table.header.empty()) return;
  for (std::size_t i = table.header.size(); i < cells.size(); ++i) {
    if (cells[i].empty()) continue;
    throw UserError(
        {.file = table.file, .line = line}, {},
        fmt::format("the line has {} fields and the header {}: {} is beyond them; write "
                    "numbers with a point, and texts with a comma in quotes",
                    cells.size(), table.header.size(), quoted_excerpt(cells[i])));
  }
}

}  // namespace
}  // namespace csv_table_detail

bool CsvTable::has(std::string_view column) const {
  return std::find(header.begin(), header.end(), column) != header.end();
}

std::size_t CsvTable::column(std::string_view name) const {
  const auto found = std::find(header.begin(), header.end(), name);
  if (found == header.end()) {
    throw UserError({.file = file, .line = 1}, {},
                    fmt::format("the table has no column '{}' (columns: {})", name,
                                excerpt(fmt::format("{}", fmt::join(header, ", ")))));
  }
  return static_cast<std::size_t>(found - header.begin());
}

CsvTable parse_csv(std::string_view text, const std::string& file) {
  require_text(text, file);
  CsvTable table{.file = file};
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  int number = 0;
  bool first = true;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = csv_table_detail::trimmed(text.substr(begin, end - begin));
    begin = end + 1;
    ++number;
    if (line.empty()) continue;
    std::vector<std::string> cells = csv_table_detail::cells_of(line);
    if (first && !number_in(cells.front())) {
      table.header = std::move(cells);
      csv_table_detail::check_header(table);
    } else {
      csv_table_detail::check_row(table, cells, number);
      table.rows.push_back({.line = number, .cells = std::move(cells)});
    }
    first = false;
  }
  return table;
}

std::optional<double> number_in(std::string_view text) {
  text = csv_table_detail::trimmed(text);
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || text.empty()) return std::nullopt;
  if (!std::isfinite(number)) return std::nullopt;
  return number;
}

}  // namespace tidemark
