#include "sim/memory/packing/buffers_csv.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>
#include <string_view>
#include <unordered_map>

#include <fmt/format.h>

#include "graph/core/csv.hpp"
#include "graph/core/errors.hpp"
#include "graph/core/units.hpp"

namespace tidemark {
namespace buffers_csv_detail {
namespace {

constexpr std::array<std::string_view, 4> kColumns{"id", "lower", "upper", "size"};
constexpr std::size_t kId = 0;
constexpr std::size_t kLower = 1;
constexpr std::size_t kUpper = 2;
constexpr std::size_t kSize = 3;

struct Field {
  std::string_view text;
  int column = 0;  // column of its first byte, from 1
};

// Reads one line at a time, cut at commas; blanks around a field do not count.
class CsvLines {
 public:
  CsvLines(std::string_view text, const std::string& file) : rest_(text), file_(file) {
    if (rest_.starts_with("\xEF\xBB\xBF")) rest_.remove_prefix(3);
  }
  // Reads the next line that is not blank; returns false at the end.
  bool next(std::vector<Field>& fields) {
    while (!rest_.empty()) {
      const std::size_t end = std::min(rest_.find('\n'), rest_.size());
      std::string_view line = rest_.substr(0, end);
      rest_.remove_prefix(std::min(end + 1, rest_.size()));
      ++line_;
      if (line.ends_with('\r')) line.remove_suffix(1);
      if (line.find_first_not_of(" \t") == std::string_view::npos) continue;
      cut(line, fields);
      return true;
    }
    return false;
  }
  [[noreturn]] void fail(int column, const std::string& path, const std::string& problem) const {
    throw UserError({.file = file_, .line = line_, .column = column}, path, problem);
  }
  [[nodiscard]] int line() const { return line_; }

 private:
  static void cut(std::string_view line, std::vector<Field>& fields) {
    fields.clear();
    for (std::size_t begin = 0; begin <= line.size();) {
      const std::size_t comma = std::min(line.find(',', begin), line.size());
      std::string_view text = line.substr(begin, comma - begin);
      const std::size_t blanks = std::min(text.find_first_not_of(" \t"), text.size());
      text.remove_prefix(blanks);
      text = text.substr(0, text.find_last_not_of(" \t") + 1);
      fields.push_back({.text = text, .column = static_cast<int>(begin + blanks) + 1});
      begin = comma + 1;
    }
  }

  std::string_view rest_;
  const std::string& file_;
  int line_ = 0;
};

using ColumnPlaces = std::array<std::size_t, kColumns.size()>;

ColumnPlaces find_columns(const CsvLines& lines, const std::vector<Field>& header) {
  ColumnPlaces places{};
  for (std::size_t c = 0; c < kColumns.size(); ++c) {
    const auto is_column = [&](const Field& field) { return field.text == kColumns[c]; };
    const auto found = std::find_if(header.begin(), header.end(), is_column);
    if (found == header.end()) {
      lines.fail(1, "",
                 fmt::format("there is no column '{}'; expected {}", kColumns[c],
                             fmt::join(kColumns, ",")));
    }
    const auto again = std::find_if(std::next(found), header.end(), is_column);
    if (again != header.end()) {
      lines.fail(again->column, "", fmt::format("the column '{}' occurs twice", kColumns[c]));
    }
    places[c] = static_cast<std::size_t>(found - header.begin());
  }
  return places;
}

std::int64_t read_count(const CsvLines& lines, const Field& field, std::size_t column) {
  const std::string path(kColumns[column]);
  std::int64_t value = 0;
  const char* end = field.text.data() + field.text.size();
  const auto [rest, error] = std::from_chars(field.text.data(), end, value);
  if (error == std::errc::result_out_of_range) {
    lines.fail(field.column, path,
               fmt::format("{} does not fit into 63 bits", quoted_excerpt(field.text)));
  }
  if (error != std::errc() || rest != end) {
    lines.fail(field.column, path,
               fmt::format("expected an integer, found {}", quoted_excerpt(field.text)));
  }
  if (value < 0) lines.fail(field.column, path, fmt::format("{} is negative", value));
  return value;
}

}  // namespace
}  // namespace buffers_csv_detail

NamedProblem parse_buffers(std::string_view text, const std::string& file) {
  buffers_csv_detail::CsvLines lines(text, file);
  std::vector<buffers_csv_detail::Field> fields;
  if (!lines.next(fields)) {
    throw UserError({.file = file}, {},
                    fmt::format("the file is empty; expected the columns {}",
                                fmt::join(buffers_csv_detail::kColumns, ",")));
  }
  const buffers_csv_detail::ColumnPlaces places = buffers_csv_detail::find_columns(lines, fields);
  const std::size_t columns = fields.size();
  NamedProblem named;
  std::unordered_map<std::string_view, int> line_of;  // line of each id
  std::int64_t total = 0;
  while (lines.next(fields)) {
    if (fields.size() != columns) {
      lines.fail(fields.back().column, "",
                 fmt::format("the line has {} fields, the first line {}", fields.size(), columns));
    }
    const buffers_csv_detail::Field& id = fields[places[buffers_csv_detail::kId]];
    if (id.text.empty()) lines.fail(id.column, "id", "the id is empty");
    const auto [known, is_new] = line_of.emplace(id.text, lines.line());
    if (!is_new) {
      lines.fail(
          id.column, "id",
          fmt::format("{} occurs in line {} already", quoted_excerpt(id.text), known->second));
    }
    const Buffer buffer{
        .lower = buffers_csv_detail::read_count(lines, fields[places[buffers_csv_detail::kLower]],
                                                buffers_csv_detail::kLower),
        .upper = buffers_csv_detail::read_count(lines, fields[places[buffers_csv_detail::kUpper]],
                                                buffers_csv_detail::kUpper),
        .size = Bytes(buffers_csv_detail::read_count(
            lines, fields[places[buffers_csv_detail::kSize]], buffers_csv_detail::kSize))};
    if (buffer.upper <= buffer.lower) {
      lines.fail(fields[places[buffers_csv_detail::kUpper]].column, "upper",
                 fmt::format("{} is not above lower, {}: the buffer is never live", buffer.upper,
                             buffer.lower));
    }
    if (!checked_add(total, buffer.size.count, total)) {
      lines.fail(fields[places[buffers_csv_detail::kSize]].column, "size",
                 "the sizes up to here sum to more than 63 bits hold");
    }
    named.ids.emplace_back(id.text);
    named.problem.buffers.push_back(buffer);
  }
  if (named.ids.empty()) throw UserError({.file = file}, {}, "the file lists no buffers");
  return named;
}

std::string solution_csv(const NamedProblem& named, const Packing& packing) {
  fmt::memory_buffer out;
  fmt::format_to(std::back_inserter(out), "{},offset\n",
                 fmt::join(buffers_csv_detail::kColumns, ","));
  for (std::size_t i = 0; i < named.ids.size(); ++i) {
    const Buffer& b = named.problem.buffers[i];
    fmt::format_to(std::back_inserter(out), "{},{},{},{},{}\n", csv_field(named.ids[i]), b.lower,
                   b.upper, b.size.count, packing.offsets[i].count);
  }
  return fmt::to_string(out);
}

}  // namespace tidemark
