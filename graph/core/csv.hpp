// Fields of comma-separated files, RFC 4180.
#pragma once

#include <charconv>
#include <string>
#include <string_view>

#include <fmt/format.h>

namespace tidemark {

// Returns the field, in quotes where it holds a comma, a quote or a line break. A text that a
// spreadsheet would take for a formula begins with an apostrophe, which spreadsheets do not show.
[[nodiscard]] inline std::string csv_field(std::string_view text) {
  constexpr std::string_view kFormulas = "=+-@\t";
  double value = 0;
  const std::from_chars_result read =
      std::from_chars(text.data(), text.data() + text.size(), value);
  const bool number = read.ec == std::errc() && read.ptr == text.data() + text.size();
  if (!text.empty() && kFormulas.find(text.front()) != std::string_view::npos && !number)
    return csv_field(fmt::format("'{}", text));
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string field = "\"";
  for (const char c : text) {
    if (c == '"') field += '"';
    field += c;
  }
  return field + '"';
}

}  // namespace tidemark
