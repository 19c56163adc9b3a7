#include "graph/core/numbers.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <string_view>
#include <system_error>

#include <fmt/format.h>

#include "graph/core/errors.hpp"
#include "graph/core/scalar_text.hpp"

namespace tidemark {
namespace numbers_detail {
namespace {

// `text` without the underscores between digits.
std::string without_groups(std::string_view text) {
  std::string digits;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool groups = text[i] == '_' && i > 0 && is_digit(text[i - 1]) && i + 1 < text.size() &&
                        is_digit(text[i + 1]);
    if (!groups) digits += text[i];
  }
  return digits;
}

struct Literal {
  bool is_number = false;
  bool is_whole = false;      // neither a point nor an exponent
  bool leading_zero = false;  // "010"
};

// [+-]? digits (. digits?)? ([eE] [+-]? digits)?, or a fraction without whole digits.
Literal classify(std::string_view text) {
  Literal literal;
  std::size_t at = !text.empty() && (text[0] == '-' || text[0] == '+') ? 1 : 0;
  const auto digits = [&] {
    const std::size_t first = at;
    while (at < text.size() && is_digit(text[at]))
      ++at;
    return at - first;
  };
  const bool zero = at < text.size() && text[at] == '0';
  const std::size_t whole = digits();
  literal.is_whole = true;
  std::size_t fraction = 0;
  if (at < text.size() && text[at] == '.') {
    ++at;
    fraction = digits();
    literal.is_whole = false;
  }
  if (whole + fraction == 0) return {};
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    ++at;
    if (at < text.size() && (text[at] == '+' || text[at] == '-')) ++at;
    if (digits() == 0) return {};
    literal.is_whole = false;
  }
  literal.is_number = at == text.size();
  literal.leading_zero = zero && whole > 1;
  return literal;
}

// Says what to write instead of a text that is nearly a number; empty if that is not clear.
std::string number_hint(std::string_view text) {
  const std::string_view unsigned_text =
      !text.empty() && (text[0] == '-' || text[0] == '+') ? text.substr(1) : text;
  if (unsigned_text.starts_with("0x") || unsigned_text.starts_with("0X")) {
    return "; hexadecimal is not supported";
  }
  if (unsigned_text.starts_with("0o")) return "; octal is not supported";
  if (text.ends_with('%')) return "; write 50% as 0.5";
  const std::string_view name = unsigned_text.starts_with('.') ? unsigned_text.substr(1)  //
                                                               : unsigned_text;
  for (const std::string_view special : {"nan", "inf", "infinity"}) {
    const bool same = std::equal(name.begin(), name.end(), special.begin(), special.end(),
                                 [](char a, char b) { return (a | 0x20) == b; });
    if (same) return "; only finite numbers are supported";
  }
  return {};
}

[[noreturn]] void refuse_number(const std::string& expected, const Value& value,
                                const std::string& hint) {
  refuse(fmt::format("expected {}, found {}{}", expected, found(value), hint));
}

// Returns the digits of an unquoted number in the document.
std::string number_digits(const Value& value, const std::string& expected, Literal& literal) {
  if (!value.is_scalar()) refuse_number(expected, value, "");
  const std::string digits = without_groups(value.scalar);
  literal = classify(digits);
  if (value.quoted) {
    refuse_number(expected, value, literal.is_number ? " in quotes; leave the quotes out" : "");
  }
  if (!literal.is_number) refuse_number(expected, value, number_hint(value.scalar));
  if (literal.leading_zero) {
    refuse_number(expected, value,
                  ": a leading zero means octal to some YAML readers; leave it out");
  }
  return digits.starts_with('+') ? digits.substr(1) : digits;
}

}  // namespace
}  // namespace numbers_detail

std::int64_t read_integer(const Value& value, const std::string& expected, std::int64_t lowest,
                          std::int64_t highest) {
  numbers_detail::Literal literal;
  const std::string digits = numbers_detail::number_digits(value, expected, literal);
  if (!literal.is_whole) {
    double real = 0;
    std::from_chars(digits.data(), digits.data() + digits.size(), real);
    const bool whole = std::abs(real) < 1e15 && real == std::floor(real);
    numbers_detail::refuse_number(expected, value,
                                  whole ? fmt::format("; write {:.0f}", real) : "");
  }
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc() || number < lowest || number > highest) {
    refuse(fmt::format("{} is too {}; integers here go from {} to {}", excerpt(value.scalar),
                       digits[0] == '-' ? "small" : "large", lowest, highest));
  }
  return number;
}

double read_real(const Value& value, const std::string& expected) {
  numbers_detail::Literal literal;
  const std::string digits = numbers_detail::number_digits(value, expected, literal);
  double number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc()) {
    refuse(excerpt(value.scalar) + " is beyond the range of a 64-bit floating-point number");
  }
  return number;
}

}  // namespace tidemark
