#include "scenarios/results/document_json.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

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

using Json = nlohmann::ordered_json;

// Returns the number that a text of digits spells.
Json number_of(const std::string& s) {
  const auto parsed = [&](auto number) -> Json {
    const auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), number);
    return error == std::errc() && end == s.data() + s.size() ? Json(number) : Json();
  };
  Json number = parsed(std::int64_t{0});
  if (number.is_null()) number = parsed(std::uint64_t{0});
  return number.is_null() ? parsed(0.0) : number;
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

nlohmann::ordered_json to_json(const Value& value) {
  using document_json_detail::Json;
  switch (value.kind) {
    case Value::Kind::kNull:
      return nullptr;
    case Value::Kind::kScalar: {
      const std::string& s = value.scalar;
      if (!value.quoted && (s == "true" || s == "false")) return s == "true";
      return !value.quoted && document_json_detail::is_json_number(s)
                 ? document_json_detail::number_of(s)
                 : Json(s);
    }
    case Value::Kind::kSequence: {
      Json list = Json::array();
      for (const Value& item : value.items)
        list.push_back(to_json(item));
      return list;
    }
    case Value::Kind::kMapping: {
      Json mapping = Json::object();
      for (const Value::Entry& entry : value.entries)
        mapping[entry.key] = to_json(entry.value);
      return mapping;
    }
  }
  return nullptr;
}

Value from_json(const nlohmann::ordered_json& json) {
  Value value;
  if (json.is_object()) {
    value.kind = Value::Kind::kMapping;
    for (const auto& [key, item] : json.items())
      value.entries.push_back({.key = key, .location = {}, .value = from_json(item)});
  } else if (json.is_array()) {
    value.kind = Value::Kind::kSequence;
    for (const auto& item : json)
      value.items.push_back(from_json(item));
  } else if (!json.is_null()) {
    value.kind = Value::Kind::kScalar;
    value.quoted = json.is_string();
    value.scalar = value.quoted ? json.get<std::string>() : json.dump();
  }
  return value;
}

std::string as_json(const Value& value) {
  std::string text;
  document_json_detail::append_json(value, text);
  return text;
}

}  // namespace tidemark
