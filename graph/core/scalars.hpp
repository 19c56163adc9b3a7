// Rules by which one value of a document reads as a number, a text, a size, ...
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "graph/core/range.hpp"
#include "graph/core/units.hpp"
#include "graph/core/value.hpp"

namespace tidemark {

// Returns "; write true" for yes, on and the like, "; write false" for their opposites, or "".
[[nodiscard]] std::string hint_of_flag(std::string_view word);

// A switch that may say how much instead: true, false or 8. The range is that of the number.
using FlagOrNumber = std::variant<bool, int>;

// The types that a Decoder can read.
template <class T>
concept Scalar = std::same_as<T, bool> || std::same_as<T, FlagOrNumber> || std::same_as<T, int> ||
    std::same_as<T, std::int64_t> || std::same_as<T, double> || std::same_as<T, std::string> ||
    std::same_as<T, Bytes> || std::same_as<T, Duration> || std::same_as<T, BytesPerSecond> ||
    std::same_as<T, FlopsPerSecond>;

// Describes how a T is read, written and named.
template <Scalar T>
struct ScalarRules {
  // Throws std::invalid_argument with a sentence that says what was expected and what was found.
  [[nodiscard]] static T read(const Value& value, const Range& range);
  // Returns "integer", "size", ... as `tidemark describe` prints it.
  [[nodiscard]] static std::string_view type_name();
  // Returns the expectation that an error states: "an integer of at least 1".
  [[nodiscard]] static std::string expectation(const Range& range);
  // Returns ">= 1", "0 to 1"; empty when every value is allowed.
  [[nodiscard]] static std::string range_note(const Range& range);
  // Returns the value as a file would give it.
  [[nodiscard]] static std::string write(const T& value);
  // Returns the lowest value that the range allows; 0 where it has no lower end.
  [[nodiscard]] static T lowest_legal(const Range& range);
};

}  // namespace tidemark
