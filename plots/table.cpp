#include "plots/table.hpp"

#include <algorithm>

#include "graph/core/printable.hpp"
#include "plots/role_style.hpp"

namespace tidemark {
namespace table_detail {
namespace {

constexpr std::size_t kGutter = 2;          // blanks between columns
constexpr std::size_t kNarrowestWrap = 24;  // a narrower last column is left as it is
constexpr std::size_t kNarrowestName = 12;  // the same for the other columns
constexpr std::size_t kBelowIndent = 4;     // blanks before a cell below its row

std::string padded(const std::string& text, std::size_t width, Align align) {
  const std::string blanks(width - std::min(width, display_width(text)), ' ');
  return align == Align::kRight ? blanks + text : text + blanks;
}

std::string styled(const std::string& text, const Cell& cell, bool colour) {
  const std::string painted = cell.colour >= 0 ? paint(text, cell.colour, colour) : text;
  return cell.bold ? bold(painted, colour) : painted;
}

void drop_trailing_blanks(std::string& line) {
  line.erase(line.find_last_not_of(' ') + 1);
}

// Returns the lines of each shown cell of a row, which is wrapped to the width of its column.
std::vector<std::vector<std::string>> wrapped_cells(const std::vector<Cell>& row,
                                                    const std::vector<std::size_t>& shown,
                                                    const std::vector<std::size_t>& widths) {
  std::vector<std::vector<std::string>> lines(row.size());
  for (const std::size_t c : shown) {
    lines[c] = display_width(row[c].text) > widths[c] ? wrap(row[c].text, widths[c])
                                                      : std::vector<std::string>{row[c].text};
  }
  return lines;
}

// Returns the height of a row, which is that of its highest cell, in lines.
std::size_t height_of(const std::vector<std::vector<std::string>>& cells) {
  std::size_t height = 1;
  for (const std::vector<std::string>& lines : cells)
    height = std::max(height, lines.size());
  return height;
}

// Returns the lines of a cell that is placed below its row; `indent` blanks stand before each.
std::string lines_below(const Cell& cell, std::size_t indent, std::size_t width, bool colour) {
  const std::string blanks(indent, ' ');
  std::string lines;
  for (const std::string& line :
       wrap(cell.text, std::max(width, blanks.size() + 1) - blanks.size()))
    lines += blanks + styled(line, cell, colour) + '\n';
  return lines;
}

}  // namespace
}  // namespace table_detail

std::size_t display_width(std::string_view text) {
  std::size_t width = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\x1b') {  // ESC [ ... m
      i = std::min(text.find('m', i), text.size() - 1);
      continue;
    }
    const bool continues = (static_cast<unsigned char>(text[i]) & 0xC0U) == 0x80U;
    if (!continues) ++width;
  }
  return width;
}

std::vector<std::string> wrap(std::string_view text, std::size_t width) {
  std::vector<std::string> lines(1);
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t blank = std::min(text.find(' ', at), text.size());
    const std::string_view word = text.substr(at, blank - at);
    at = blank + 1;
    std::string& line = lines.back();
    if (line.empty()) {
      line = word;
    } else if (display_width(line) + 1 + display_width(word) <= width) {
      line += ' ';
      line += word;
    } else {
      lines.emplace_back(word);
    }
  }
  return lines;
}

namespace table_detail {
namespace {

// Returns where the meaning of a line "  --name VALUE      what it means" begins; 0 for others.
std::size_t meaning_of(std::string_view line, std::size_t lead) {
  const std::size_t gap = line.find("  ", lead);
  if (gap == std::string_view::npos) return 0;
  const std::size_t begin = line.find_first_not_of(' ', gap);
  return begin == std::string_view::npos ? 0 : begin;
}

std::string wrapped(std::string_view text, std::size_t width, bool meanings) {
  constexpr std::size_t kNarrowest = 20;  // least width of a column of meanings
  std::string out;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    const std::size_t lead = std::min(line.find_first_not_of(' '), line.size());
    const std::size_t meaning = meanings ? meaning_of(line, lead) : 0;
    const bool hangs = meaning > 0 && meaning + kNarrowest <= width;
    const std::size_t first = hangs ? meaning : lead;        // column where the broken text begins
    const std::size_t further = hangs ? meaning : lead + 2;  // column where it goes on
    if (width == 0 || display_width(line) <= width || width <= further) {
      out += line;
    } else {
      const std::vector<std::string> lines = wrap(line.substr(first), width - further);
      out += line.substr(0, first);
      for (std::size_t i = 0; i < lines.size(); ++i)
        out += (i == 0 ? std::string() : '\n' + std::string(further, ' ')) + lines[i];
    }
    if (end == std::string_view::npos) break;
    out += '\n';
    text.remove_prefix(end + 1);
  }
  return out;
}

}  // namespace
}  // namespace table_detail

std::string wrap_lines(std::string_view text, std::size_t width) {
  return table_detail::wrapped(text, width, false);
}

std::string wrap_meanings(std::string_view text, std::size_t width) {
  return table_detail::wrapped(text, width, true);
}

void Table::add_row(std::vector<Cell> cells) {
  cells.resize(columns_.size());
  for (Cell& cell : cells)
    cell.text = printable(cell.text);
  rows_.push_back(std::move(cells));
}

std::size_t Table::wrapped_width(std::size_t column, std::size_t width) const {
  std::size_t widest = display_width(columns_[column].title);
  for (const auto& row : rows_) {
    for (const std::string& line : wrap(row[column].text, width))
      widest = std::max(widest, display_width(line));
  }
  return widest;
}

Table::Layout Table::layout(std::size_t width) const {
  Layout layout;
  layout.widths.resize(columns_.size());
  std::vector<std::size_t>& widths = layout.widths;
  std::vector<std::size_t>& shown = layout.shown;
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    for (const auto& row : rows_)
      widths[c] = std::max(widths[c], display_width(row[c].text));
    if (widths[c] == 0) continue;
    widths[c] = std::max(widths[c], display_width(columns_[c].title));
    shown.push_back(c);
  }
  if (shown.empty() || width == 0) return layout;
  const auto total = [&] {
    std::size_t sum = indent_ - table_detail::kGutter;
    for (const std::size_t c : shown)
      sum += widths[c] + table_detail::kGutter;
    return sum;
  };
  // Makes a column of words narrower, down to its longest word and no further than to `least`,
  // until the table fits.
  const auto narrow = [&](std::size_t c, std::size_t least) {
    if (columns_[c].align != Align::kLeft || total() <= width) return;
    const std::size_t over = total() - width;
    widths[c] = wrapped_width(c, std::max(widths[c] - std::min(widths[c], over), least));
  };
  while (total() > width) {
    const std::size_t last = widths[shown.back()];
    if (total() - last + std::min(last, table_detail::kNarrowestWrap) <= width) break;
    const auto most = std::max_element(
        shown.begin(), shown.end(),
        [&](std::size_t a, std::size_t b) { return columns_[a].spare < columns_[b].spare; });
    if (columns_[*most].spare == 0) break;
    shown.erase(most);
  }
  const std::vector<std::size_t> unwrapped = widths;
  narrow(shown.back(), table_detail::kNarrowestWrap);
  const auto narrow_names = [&] {
    std::vector<std::size_t> by_width = shown;
    std::stable_sort(by_width.begin(), by_width.end(),
                     [&](std::size_t x, std::size_t y) { return widths[x] > widths[y]; });
    for (const std::size_t c : by_width) {
      if (c != shown.back() || layout.below) narrow(c, table_detail::kNarrowestName);
    }
  };
  narrow_names();
  const std::size_t last = shown.back();
  const bool words = std::any_of(rows_.begin(), rows_.end(), [&](const auto& row) {
    return row[last].text.find(' ') != std::string::npos;
  });
  if (total() <= width || shown.size() < 2 || !words || !columns_[last].title.empty()) {
    return layout;
  }
  layout.below = last;
  shown.pop_back();
  widths = unwrapped;
  narrow_names();
  return layout;
}

std::string Table::text(bool colour, std::size_t width) const {
  const Layout laid_out = layout(width);
  const std::vector<std::size_t>& widths = laid_out.widths;
  const std::vector<std::size_t>& shown = laid_out.shown;
  const std::optional<std::size_t>& below = laid_out.below;
  if (shown.empty()) return {};
  std::string out;
  const auto add_line = [&](const auto& cell_of) {
    std::string line(indent_, ' ');
    for (const std::size_t c : shown) {
      line += cell_of(c);
      if (c != shown.back()) line.append(table_detail::kGutter, ' ');
    }
    table_detail::drop_trailing_blanks(line);
    out += line + '\n';
  };
  const auto aligned = [&](std::size_t c, const std::string& text) {
    return c == shown.back() && columns_[c].align == Align::kLeft
               ? text
               : table_detail::padded(text, widths[c], columns_[c].align);
  };
  const bool titled = std::any_of(shown.begin(), shown.end(),
                                  [&](std::size_t c) { return !columns_[c].title.empty(); });
  if (titled) {
    add_line([&](std::size_t c) { return dim(aligned(c, columns_[c].title), colour); });
  }
  for (const auto& row : rows_) {
    const std::vector<std::vector<std::string>> lines =
        table_detail::wrapped_cells(row, shown, widths);
    for (std::size_t i = 0; i < table_detail::height_of(lines); ++i) {
      add_line([&](std::size_t c) {
        const std::string text = i < lines[c].size() ? lines[c][i] : "";
        return text.empty() ? aligned(c, text)
                            : table_detail::styled(aligned(c, text), row[c], colour);
      });
    }
    if (!below || row[*below].text.empty()) continue;
    out +=
        table_detail::lines_below(row[*below], indent_ + table_detail::kBelowIndent, width, colour);
  }
  return out;
}

}  // namespace tidemark
