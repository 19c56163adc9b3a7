// Texts of a user as a terminal may show them: a name can have any character, and those that
// control a terminal would move its cursor, colour what follows or type commands.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tidemark {

// Returns the length in bytes of what would control a terminal at the front of a UTF-8 text: C0,
// DEL, C1 (U+0080 to U+009F), or what changes the order of letters (U+061C, U+200E, U+200F, U+202A
// to U+202E, U+2066 to U+2069); 0 if there is none.
[[nodiscard]] constexpr std::size_t control_length(std::string_view text) {
  if (text.empty()) return 0;
  const auto byte = [&](std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U;
  };
  if (byte(0) < 0x20 || byte(0) == 0x7F) return 1;
  if (byte(0) == 0xC2 && byte(1) >= 0x80 && byte(1) < 0xA0) return 2;
  if (byte(0) == 0xD8 && byte(1) == 0x9C) return 2;
  if (byte(0) != 0xE2) return 0;
  const bool marks = byte(1) == 0x80 && (byte(2) == 0x8E || byte(2) == 0x8F);
  const bool overrides = byte(1) == 0x80 && byte(2) >= 0xAA && byte(2) <= 0xAE;
  const bool isolates = byte(1) == 0x81 && byte(2) >= 0xA6 && byte(2) <= 0xA9;
  return marks || overrides || isolates ? 3 : 0;
}

// Appends the control character as JSON escapes it: \u001b. `control`: its bytes.
inline void append_escaped(std::string& out, std::string_view control) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  constexpr unsigned kLow = 0x3F;  // bits of a byte that follows the first
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(control[i]); };
  unsigned code = byte(0);
  if (control.size() == 2) code = (byte(0) & 0x1FU) << 6U | (byte(1) & kLow);
  if (control.size() == 3)
    code = (byte(0) & 0x0FU) << 12U | (byte(1) & kLow) << 6U | (byte(2) & kLow);
  out += "\\u";
  for (unsigned shift = 16; shift > 0; shift -= 4)
    out += kDigits[code >> (shift - 4U) & 0x0FU];
}

// Returns the text on one line, with every control character escaped.
[[nodiscard]] inline std::string printable(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t control = control_length(text.substr(at));
    if (control > 0) {
      append_escaped(out, text.substr(at, control));
    } else {
      out += text[at];
    }
    at += control > 0 ? control : 1;
  }
  return out;
}

}  // namespace tidemark
