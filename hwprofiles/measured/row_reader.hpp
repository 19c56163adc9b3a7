// The cells of one row by the names of their columns, with errors that name the column.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "hwprofiles/measured/csv_table.hpp"

namespace tidemark {

// A row that is wrong. Caught by the reader of the table.
struct RowFault {
  std::string problem;
};

class RowReader {
 public:
  RowReader(const CsvTable& table, const CsvRow& row) : table_(&table), row_(&row) {}

  // Returns the cell, empty where the row is too short. Throws UserError for a missing column.
  [[nodiscard]] const std::string& text(std::string_view column) const;
  // Return a number above 0, or a whole one of at least `least`. Throw RowFault.
  [[nodiscard]] double positive(std::string_view column) const;
  [[nodiscard]] std::int64_t count(std::string_view column, std::int64_t least = 1) const;

 private:
  const CsvTable* table_;
  const CsvRow* row_;
};

}  // namespace tidemark
