// A table of comma-separated values, whole in memory.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tidemark {

struct CsvRow {
  int line = 0;  // line of the file, from 1
  std::vector<std::string> cells;
};

struct CsvTable {
  std::string file;                 // name of the file in errors
  std::vector<std::string> header;  // empty: the first line holds numbers, so there is none
  std::vector<CsvRow> rows;

  [[nodiscard]] bool has(std::string_view column) const;
  // Returns the column's place. Throws UserError that names the columns there are.
  [[nodiscard]] std::size_t column(std::string_view name) const;
};

// Reads quoted cells ("a,b", with "" for a quote) and trims blanks around cells. Empty lines are
// left out. A first line whose first cell is a number is a row.
[[nodiscard]] CsvTable parse_csv(std::string_view text, const std::string& file);

// Returns the number that is all of `text`; a blank text and what is no finite number have none.
[[nodiscard]] std::optional<double> number_in(std::string_view text);

}  // namespace tidemark
