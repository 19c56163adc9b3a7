// The numbers of a document: decimal, finite, not quoted, without a leading zero.
#pragma once

#include <cstdint>
#include <string>

#include "graph/core/value.hpp"

namespace tidemark {

// Both readers throw std::invalid_argument; `expected` is what the error asks for: "an integer of
// at least 1".
[[nodiscard]] std::int64_t read_integer(const Value& value, const std::string& expected,
                                        std::int64_t lowest, std::int64_t highest);
[[nodiscard]] double read_real(const Value& value, const std::string& expected);

}  // namespace tidemark
