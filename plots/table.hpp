// Aligned text tables for a terminal.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace tidemark {

enum class Align { kLeft, kRight };

struct Cell {
  std::string text;  // UTF-8, no control characters
  int colour = -1;   // of the 256-colour palette; -1: as the rest
  bool bold = false;
};

struct Column {
  std::string title;
  Align align = Align::kLeft;
  int spare = 0;  // columns with the highest number are left out first where the table is too wide
};

// The characters that a UTF-8 text takes on a terminal; escape sequences count nothing.
[[nodiscard]] std::size_t display_width(std::string_view text);
// Breaks a text at blanks into lines of at most `width` characters; longer words stay whole.
[[nodiscard]] std::vector<std::string> wrap(std::string_view text, std::size_t width);

class Table {
 public:
  // No titles at all: no header line. `indent` blanks before each line.
  explicit Table(std::vector<Column> columns, std::size_t indent = 0)
      : columns_(std::move(columns)), indent_(indent) {}
  // Missing cells are empty.
  void add_row(std::vector<Cell> cells);
  [[nodiscard]] bool empty() const { return rows_.empty(); }
  // Lines end with '\n' and have no trailing blanks. Beyond `width` (0: no limit) spare
  // columns are left out, then the last one is wrapped. Columns that are empty in every row are
  // left out.
  [[nodiscard]] std::string text(bool colour = false, std::size_t width = 0) const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<Cell>> rows_;
  std::size_t indent_ = 0;
};

}  // namespace tidemark
