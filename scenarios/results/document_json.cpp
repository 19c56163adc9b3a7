#include "scenarios/results/document_json.hpp"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>

namespace tidemark {
namespace document_json_detail {
namespace {

// Whether a text is a number to JSON: digits with an optional sign and fraction; other spellings of
// numbers stay texts.
bool is_json_number(std::string_view s) {
  if (!s.empty() && s.front() == '-') s.remove_prefix(1);
  const std::size_t point = std::min(s.find('.'), s.size());
  const std::string_view whole = s.substr(0, point);
  const std::string_view fraction = point == s.size() ? "0" : s.substr(point + 1);
  const auto digits = [](std::string_view text) {
    return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
  };
  return digits(whole) && digits(fraction) && (whole.size() == 1 || whole.front() != '0');
}

void append_quoted(std::string_view word, std::string& text) {
  text += '"';
  for (char c : word) {
    if (c == '"' || c == '\\') text += '\\';
    if (static_cast<unsigned char>(c) < 0x20) {
      text += fmt::format("\\u{:04x}", static_cast<unsigned char>(c));
    } else {
      text += c;
    }
  }
  text += '"';
}

void append_json(const Value& value, std::string& text) {
  switch (value.kind) {
    case Value::Kind::kNull:
      text += "null";
      return;
    case Value::Kind::kScalar: {
      const std::string& s = value.scalar;
      if (!value.quoted && (s == "true" || s == "false" || is_json_number(s))) {
        text += s;
      } else {
        append_quoted(s, text);
      }
      return;
    }
    case Value::Kind::kSequence:
      text += '[';
      for (const Value& item : value.items) {
        if (&item != &value.items.front()) text += ", ";
        append_json(item, text);
      }
      text += ']';
      return;
    case Value::Kind::kMapping:
      text += '{';
      for (const Value::Entry& entry : value.entries) {
        if (&entry != &value.entries.front()) text += ", ";
        append_quoted(entry.key, text);
        text += ": ";
        append_json(entry.value, text);
      }
      text += '}';
      return;
  }
}

}  // namespace
}  // namespace document_json_detail

std::string as_json(const Value& value) {
  std::string text;
  document_json_detail::append_json(value, text);
  return text;
}

}  // namespace tidemark
