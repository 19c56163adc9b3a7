// Fields of comma-separated files, RFC 4180.
#pragma once

#include <string>
#include <string_view>

namespace tidemark {

// Returns the field, in quotes where it holds a comma, a quote or a line break. A text that a
// spreadsheet would take for a formula is left as it is, since names of models may begin with any
// sign.
[[nodiscard]] inline std::string csv_field(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string field = "\"";
  for (const char c : text) {
    if (c == '"') field += '"';
    field += c;
  }
  return field + '"';
}

}  // namespace tidemark
