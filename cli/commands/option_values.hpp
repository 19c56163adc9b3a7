// Values of options that CLI11 only passes on: read, and refused in one wording.
#pragma once

#include <charconv>
#include <cstddef>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>

namespace tidemark {

// Throws UserError: "--OPTION: PROBLEM".
[[noreturn]] void refuse_option(std::string_view option, const std::string& problem);
// The same with the problem "expected EXPECTED, found 'TEXT'".
[[noreturn]] void refuse_value(std::string_view option, std::string_view expected,
                               const std::string& text);

// Where `name` stands among `names`. Throws UserError that names the nearest of them, or all.
[[nodiscard]] std::size_t place_of_name(std::string_view option, const std::string& name,
                                        std::span<const std::string_view> names);

// What `parse` makes of `text`. What it refuses (std::invalid_argument) is said of the option.
template <class Parse>
[[nodiscard]] auto parse_option(std::string_view option, const std::string& text, Parse&& parse) {
  try {
    return parse(text);
  } catch (const std::invalid_argument& error) {
    refuse_option(option, error.what());
  }
}

// All of `text` as a number that `accepts` takes. Throws UserError with what was expected.
template <class T, class Accepts>
[[nodiscard]] T number_option(std::string_view option, const std::string& text,
                              std::string_view expected, Accepts&& accepts) {
  T value{};
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error == std::errc() && stop == end && accepts(value)) return value;
  refuse_value(option, expected, text);
}

}  // namespace tidemark
