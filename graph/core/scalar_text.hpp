// Shared by the readers of numbers, quantities and words in documents.
#pragma once

#include <stdexcept>
#include <string>

namespace tidemark {

// Digits of ASCII only, whatever the locale.
constexpr bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// Refuses a scalar; whoever knows its place in the document turns the exception into a UserError.
[[noreturn]] inline void refuse(const std::string& problem) {
  throw std::invalid_argument(problem);
}

}  // namespace tidemark
