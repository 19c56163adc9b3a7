#include "plots/table.hpp"

#include <algorithm>

#include "plots/role_style.hpp"

namespace tidemark {
namespace {

constexpr std::size_t kGutter = 2;          // blanks between columns
constexpr std::size_t kNarrowestWrap = 24;  // a narrower last column is left as it is

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

}  // namespace

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

void Table::add_row(std::vector<Cell> cells) {
  cells.resize(columns_.size());
  rows_.push_back(std::move(cells));
}

std::string Table::text(bool colour, std::size_t width) const {
  std::vector<std::size_t> shown;
  std::vector<std::size_t> widths(columns_.size());
  bool titled = false;
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    for (const auto& row : rows_)
      widths[c] = std::max(widths[c], display_width(row[c].text));
    if (widths[c] == 0) continue;
    widths[c] = std::max(widths[c], display_width(columns_[c].title));
    titled = titled || !columns_[c].title.empty();
    shown.push_back(c);
  }
  if (shown.empty()) return {};
  // The last column may shrink to what it is wrapped to.
  const auto least_width = [&] {
    std::size_t least = indent_;
    for (const std::size_t c : shown)
      least += widths[c] + kGutter;
    return least - kGutter - widths[shown.back()] + std::min(widths[shown.back()], kNarrowestWrap);
  };
  while (width > 0 && least_width() > width) {
    const auto most = std::max_element(
        shown.begin(), shown.end(),
        [&](std::size_t a, std::size_t b) { return columns_[a].spare < columns_[b].spare; });
    if (columns_[*most].spare == 0) break;
    shown.erase(most);
  }
  std::size_t before_last = indent_;
  for (std::size_t i = 0; i + 1 < shown.size(); ++i)
    before_last += widths[shown[i]] + kGutter;
  const bool wraps = width > 0 && before_last + widths[shown.back()] > width &&
                     before_last + kNarrowestWrap <= width;

  std::string out;
  const auto add_line = [&](const auto& cell_of) {
    std::string line(indent_, ' ');
    for (const std::size_t c : shown) {
      line += cell_of(c);
      if (c != shown.back()) line.append(kGutter, ' ');
    }
    drop_trailing_blanks(line);
    out += line + '\n';
  };
  if (titled) {
    add_line([&](std::size_t c) {
      return dim(c == shown.back() && columns_[c].align == Align::kLeft
                     ? columns_[c].title
                     : padded(columns_[c].title, widths[c], columns_[c].align),
                 colour);
    });
  }
  for (const auto& row : rows_) {
    const Cell& last = row[shown.back()];
    const std::vector<std::string> lines =
        wraps ? wrap(last.text, width - before_last) : std::vector<std::string>{last.text};
    add_line([&](std::size_t c) {
      if (c == shown.back() && columns_[c].align == Align::kLeft) {
        return styled(lines.front(), row[c], colour);
      }
      return styled(padded(row[c].text, widths[c], columns_[c].align), row[c], colour);
    });
    for (std::size_t i = 1; i < lines.size(); ++i) {
      out += std::string(before_last, ' ') + styled(lines[i], last, colour) + '\n';
    }
  }
  return out;
}

}  // namespace tidemark
