// Aligned text tables for a terminal.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tidemark {

enum class Align { kLeft, kRight };

struct Cell {
  std::string text;  // UTF-8; control characters are escaped
  int colour = -1;   // index in the 256-colour palette; -1: default
  bool bold = false;
};

struct Column {
  std::string title;
  Align align = Align::kLeft;
  int spare = 0;  // columns with the highest number are left out first where the table is too wide
};

// Returns the characters that a UTF-8 text takes on a terminal; escape sequences count nothing.
[[nodiscard]] std::size_t display_width(std::string_view text);
// Breaks a text at blanks into lines of at most `width` characters; longer words stay whole.
[[nodiscard]] std::vector<std::string> wrap(std::string_view text, std::size_t width);
// Breaks every line of a text that is longer than `width` (0: none is) as wrap() does; the rest of
// it is indented by two more characters.
[[nodiscard]] std::string wrap_lines(std::string_view text, std::size_t width);
// Wraps lines that are a word and its meaning, two blanks or more apart, as in a help text: the
// rest of a line is placed below the beginning of its meaning.
[[nodiscard]] std::string wrap_meanings(std::string_view text, std::size_t width);

class Table {
 public:
  // Makes a table. Without any title it has no header line. `indent` blanks stand before each line.
  explicit Table(std::vector<Column> columns, std::size_t indent = 0)
      : columns_(std::move(columns)), indent_(indent) {}
  // Missing cells are empty.
  void add_row(std::vector<Cell> cells);
  [[nodiscard]] bool empty() const { return rows_.empty(); }
  // Returns lines that end with '\n' and have no trailing blanks. Beyond `width` (0: no limit)
  // spare columns are left out, then the last one is wrapped and then others that are aligned to
  // the left, wide ones first; where that does not suffice, a last column of words without a title
  // is placed below its rows. Columns that are empty in every row are left out.
  [[nodiscard]] std::string text(bool colour = false, std::size_t width = 0) const;

 private:
  struct Layout {
    std::vector<std::size_t> widths;   // widths of all columns, in characters
    std::vector<std::size_t> shown;    // columns shown next to each other
    std::optional<std::size_t> below;  // the column that is placed below its rows
  };
  [[nodiscard]] Layout layout(std::size_t width) const;
  // Returns the width of a column that is wrapped to `width`, longer words whole.
  [[nodiscard]] std::size_t wrapped_width(std::size_t column, std::size_t width) const;

  std::vector<Column> columns_;
  std::vector<std::vector<Cell>> rows_;
  std::size_t indent_ = 0;
};

}  // namespace tidemark
