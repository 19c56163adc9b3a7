// Texts of a user as a terminal may show them: a name can have any character, and those that
// control a terminal would move its cursor, colour what follows or type commands.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tidemark {

// Returns the length in bytes of the control character at the front of a UTF-8 text: C0, DEL, or C1
// (U+0080 to U+009F, two bytes); 0 if there is none.
[[nodiscard]] constexpr std::size_t control_length(std::string_view text) {
  if (text.empty()) return 0;
  const auto first = static_cast<unsigned char>(text[0]);
  if (first < 0x20 || first == 0x7F) return 1;
  if (first != 0xC2 || text.size() < 2) return 0;
  const auto second = static_cast<unsigned char>(text[1]);
  return second >= 0x80 && second < 0xA0 ? 2 : 0;
}

// Appends the control character as JSON escapes it: \u001b. `control`: its bytes.
inline void append_escaped(std::string& out, std::string_view control) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  const auto code = static_cast<unsigned char>(control.back());
  out += "\\u00";
  out += kDigits[code / 16U];
  out += kDigits[code % 16U];
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
