#include "graph/core/scalars.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "graph/core/errors.hpp"
#include "graph/core/numbers.hpp"
#include "graph/core/scalar_text.hpp"

namespace tidemark {
namespace scalars_detail {
namespace {

template <class T>
constexpr bool kIsInteger = std::same_as<T, int> || std::same_as<T, std::int64_t>;

struct TypeWords {
  std::string_view name;          // "integer"
  std::string_view with_article;  // "an integer"
};

template <class T>
constexpr TypeWords type_words() {
  if constexpr (std::same_as<T, bool>) {
    return {"true or false", "true or false"};
  } else if constexpr (std::same_as<T, FlagOrNumber>) {
    return {"true, false or integer", "true or false or an integer"};
  } else if constexpr (kIsInteger<T>) {
    return {"integer", "an integer"};
  } else if constexpr (std::same_as<T, double>) {
    return {"number", "a number"};
  } else if constexpr (std::same_as<T, std::string>) {
    return {"text", "a text"};
  } else if constexpr (std::same_as<T, Bytes>) {
    return {"size", "a size"};
  } else if constexpr (std::same_as<T, Duration>) {
    return {"duration", "a duration"};
  } else if constexpr (std::same_as<T, BytesPerSecond>) {
    return {"bandwidth", "a bandwidth"};
  } else {
    return {"compute rate", "a compute rate"};
  }
}

// Returns an end of a range, in the unit of the type.
template <class T>
std::string write_bound(double bound) {
  if constexpr (std::same_as<T, Bytes>) {
    return write_bytes(Bytes(static_cast<std::int64_t>(bound)));
  } else if constexpr (std::same_as<T, Duration>) {
    return fmt::format("{} s", bound);
  } else if constexpr (std::same_as<T, BytesPerSecond>) {
    return write_bandwidth({bound});
  } else if constexpr (std::same_as<T, FlopsPerSecond>) {
    return write_flops_rate({bound});
  } else if (std::abs(bound) < 1e15 && bound == std::floor(bound)) {
    return fmt::format("{}", static_cast<std::int64_t>(bound));
  } else {
    return fmt::format("{}", bound);
  }
}

// Returns a value in the unit of its Range.
template <class T>
long double measure(const T& value) {
  if constexpr (std::same_as<T, Bytes>) {
    return static_cast<long double>(value.count);
  } else if constexpr (std::same_as<T, Duration>) {
    // The value is a double, as the bound is: 100ms is at least 0.1.
    return static_cast<long double>(static_cast<double>(value.count()) / 1e9);
  } else if constexpr (std::same_as<T, BytesPerSecond> || std::same_as<T, FlopsPerSecond>) {
    return static_cast<long double>(value.value);
  } else {
    return static_cast<long double>(value);
  }
}

bool contains(const Range& range, long double value) {
  const auto low = static_cast<long double>(range.low);
  return (range.low_excluded ? value > low : value >= low) &&
         value <= static_cast<long double>(range.high);
}

bool read_bool(const Value& value) {
  if (value.is_scalar() && !value.quoted) {
    if (value.scalar == "true") return true;
    if (value.scalar == "false") return false;
  }
  const std::string hint = value.is_scalar() ? hint_of_flag(value.scalar) : "";
  refuse(fmt::format("expected true or false, found {}{}", found(value),
                     value.quoted && !hint.empty() ? hint + " without quotes" : hint));
}

FlagOrNumber read_flag_or_number(const Value& value, const Range& range,
                                 const std::string& expected) {
  if (value.is_scalar() && !value.quoted) {
    if (value.scalar == "true") return true;
    if (value.scalar == "false") return false;
  }
  using Limits = std::numeric_limits<int>;
  const auto number = static_cast<int>(read_integer(value, expected, Limits::min(), Limits::max()));
  if (contains(range, measure(number))) return number;
  refuse(fmt::format("expected {}, found {}", expected, excerpt(value.scalar)));
}

// Reads a text with a unit. The parsers' errors say what is wrong with it.
template <class T>
T read_quantity(const Value& value) {
  if (!value.is_scalar()) {
    refuse(fmt::format("expected {}, found {}", type_words<T>().with_article, found(value)));
  }
  if constexpr (std::same_as<T, Bytes>) {
    return parse_bytes(value.scalar);
  } else if constexpr (std::same_as<T, Duration>) {
    return parse_duration(value.scalar);
  } else if constexpr (std::same_as<T, BytesPerSecond>) {
    return parse_bandwidth(value.scalar);
  } else {
    return parse_flops_rate(value.scalar);
  }
}

}  // namespace
}  // namespace scalars_detail

std::string hint_of_flag(std::string_view word) {
  std::string lower(word);
  for (char& c : lower)
    c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  constexpr std::array<std::string_view, 5> kYes{"true", "yes", "on", "y", "1"};
  constexpr std::array<std::string_view, 5> kNo{"false", "no", "off", "n", "0"};
  if (std::find(kYes.begin(), kYes.end(), lower) != kYes.end()) return "; write true";
  return std::find(kNo.begin(), kNo.end(), lower) != kNo.end() ? "; write false" : "";
}

template <Scalar T>
T ScalarRules<T>::read(const Value& value, const Range& range) {
  if constexpr (std::same_as<T, bool>) {
    return scalars_detail::read_bool(value);
  } else if constexpr (std::same_as<T, FlagOrNumber>) {
    return scalars_detail::read_flag_or_number(value, range, expectation(range));
  } else if constexpr (std::same_as<T, std::string>) {
    if (!value.is_scalar()) refuse("expected a text, found " + found(value));
    return value.scalar;
  } else {
    T result{};
    if constexpr (scalars_detail::kIsInteger<T>) {
      using Limits = std::numeric_limits<T>;
      result =
          static_cast<T>(read_integer(value, expectation(range), Limits::min(), Limits::max()));
    } else if constexpr (std::same_as<T, double>) {
      result = read_real(value, expectation(range));
    } else {
      result = scalars_detail::read_quantity<T>(value);
    }
    if (!scalars_detail::contains(range, scalars_detail::measure(result))) {
      refuse(fmt::format("expected {}, found {}", expectation(range), excerpt(value.scalar)));
    }
    return result;
  }
}

template <Scalar T>
std::string_view ScalarRules<T>::type_name() {
  return scalars_detail::type_words<T>().name;
}

template <Scalar T>
std::string ScalarRules<T>::expectation(const Range& range) {
  std::string what(scalars_detail::type_words<T>().with_article);
  const bool has_low = std::isfinite(range.low);
  const bool has_high = std::isfinite(range.high);
  const std::string low = has_low ? scalars_detail::write_bound<T>(range.low) : "";
  const std::string high = has_high ? scalars_detail::write_bound<T>(range.high) : "";
  if (has_low && has_high && range.low_excluded) {
    return fmt::format("{} above {} and at most {}", what, low, high);
  }
  if (has_low && has_high) return fmt::format("{} from {} to {}", what, low, high);
  if (has_low)
    return fmt::format("{} {} {}", what, range.low_excluded ? "above" : "of at least", low);
  if (has_high) return fmt::format("{} of at most {}", what, high);
  return what;
}

template <Scalar T>
std::string ScalarRules<T>::range_note(const Range& range) {
  const bool has_low = std::isfinite(range.low);
  const bool has_high = std::isfinite(range.high);
  const std::string low = has_low ? scalars_detail::write_bound<T>(range.low) : "";
  const std::string high = has_high ? scalars_detail::write_bound<T>(range.high) : "";
  if (has_low && has_high && range.low_excluded) return fmt::format("> {}, <= {}", low, high);
  if (has_low && has_high) return fmt::format("{} to {}", low, high);
  if (has_low) return (range.low_excluded ? "> " : ">= ") + low;
  return has_high ? "<= " + high : "";
}

template <Scalar T>
std::string ScalarRules<T>::write(const T& value) {
  if constexpr (std::same_as<T, bool>) {
    return value ? "true" : "false";
  } else if constexpr (std::same_as<T, FlagOrNumber>) {
    const bool* flag = std::get_if<bool>(&value);
    return flag == nullptr ? fmt::format("{}", std::get<int>(value)) : *flag ? "true" : "false";
  } else if constexpr (std::same_as<T, std::string>) {
    return value.empty() ? "''" : value;
  } else if constexpr (std::same_as<T, Bytes>) {
    return write_bytes(value);
  } else if constexpr (std::same_as<T, Duration>) {
    return write_duration(value);
  } else if constexpr (std::same_as<T, BytesPerSecond>) {
    return write_bandwidth(value);
  } else if constexpr (std::same_as<T, FlopsPerSecond>) {
    return write_flops_rate(value);
  } else {
    return fmt::format("{}", value);
  }
}

template <Scalar T>
T ScalarRules<T>::lowest_legal(const Range& range) {
  if constexpr (std::same_as<T, bool> || std::same_as<T, std::string> ||
                std::same_as<T, FlagOrNumber>) {
    return T{};
  } else {
    // The lowest value above an excluded end is the next whole number, or the upper end if that is
    // closer.
    double lowest = std::isfinite(range.low) ? range.low : std::min(0.0, range.high);
    if (range.low_excluded) lowest = std::min(lowest + 1, range.high);
    if constexpr (scalars_detail::kIsInteger<T>) {
      return static_cast<T>(std::ceil(lowest));
    } else if constexpr (std::same_as<T, double>) {
      return lowest;
    } else if constexpr (std::same_as<T, Bytes>) {
      return Bytes(static_cast<std::int64_t>(std::ceil(std::max(lowest, 0.0))));
    } else if constexpr (std::same_as<T, Duration>) {
      return Duration(static_cast<std::int64_t>(std::ceil(std::max(lowest, 0.0) * 1e9)));
    } else {
      return T{std::max(lowest, 0.0)};
    }
  }
}

template struct ScalarRules<bool>;
template struct ScalarRules<FlagOrNumber>;
template struct ScalarRules<int>;
template struct ScalarRules<std::int64_t>;
template struct ScalarRules<double>;
template struct ScalarRules<std::string>;
template struct ScalarRules<Bytes>;
template struct ScalarRules<Duration>;
template struct ScalarRules<BytesPerSecond>;
template struct ScalarRules<FlopsPerSecond>;

}  // namespace tidemark
