// Shared by the readers of numbers, quantities and words in documents.
#pragma once

#include <stdexcept>
#include <string>

namespace tidemark {

// ASCII only, whatever the locale.
constexpr bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// A scalar that cannot be taken; whoever knows its place in the document makes a UserError of it.
[[noreturn]] inline void refuse(const std::string& problem) {
  throw std::invalid_argument(problem);
}

}  // namespace tidemark
