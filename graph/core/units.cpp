// The parsers of quantities. The arithmetic is on decimal digits, so that "3.35TB" is exact.
#include "graph/core/units.hpp"

#include <array>
#include <cstddef>
#include <limits>
#include <span>
#include <vector>

#include <fmt/format.h>

#include "graph/core/errors.hpp"
#include "graph/core/scalar_text.hpp"
#include "graph/core/words.hpp"

namespace tidemark {
namespace units_detail {
namespace {

__extension__ using Wide = unsigned __int128;

struct Unit {
  std::string_view name;
  std::uint64_t scale = 1;  // in bytes, operations or nanoseconds
  bool rounds = false;      // decimals of this unit need not be whole bytes or nanoseconds
};

constexpr std::uint64_t kThousand = 1000;
constexpr std::uint64_t kMillion = 1'000'000;
constexpr std::uint64_t kBillion = 1'000'000'000;
constexpr std::uint64_t kTrillion = kBillion * kThousand;
constexpr std::uint64_t kQuadrillion = kBillion * kMillion;
constexpr std::uint64_t kMinute = 60 * kBillion;  // ns

constexpr std::array kSizeUnits{
    Unit{"B", 1},
    Unit{"KB", kThousand},
    Unit{"MB", kMillion},
    Unit{"GB", kBillion},
    Unit{"TB", kTrillion},
    Unit{"PB", kQuadrillion},
    Unit{"KiB", std::uint64_t{1} << 10, true},
    Unit{"MiB", std::uint64_t{1} << 20, true},
    Unit{"GiB", std::uint64_t{1} << 30, true},
    Unit{"TiB", std::uint64_t{1} << 40, true},
    Unit{"PiB", std::uint64_t{1} << 50, true},
    Unit{"kB", kThousand},
};
constexpr std::array kBandwidthUnits{
    Unit{"B/s", 1},
    Unit{"KB/s", kThousand},
    Unit{"MB/s", kMillion},
    Unit{"GB/s", kBillion},
    Unit{"TB/s", kTrillion},
    Unit{"PB/s", kQuadrillion},
    Unit{"KiB/s", std::uint64_t{1} << 10},
    Unit{"MiB/s", std::uint64_t{1} << 20},
    Unit{"GiB/s", std::uint64_t{1} << 30},
    Unit{"TiB/s", std::uint64_t{1} << 40},
    Unit{"PiB/s", std::uint64_t{1} << 50},
    Unit{"kB/s", kThousand},
};
constexpr std::array kFlopsUnits{
    Unit{"FLOP/s", 1},          Unit{"KFLOP/s", kThousand},  Unit{"MFLOP/s", kMillion},
    Unit{"GFLOP/s", kBillion},  Unit{"TFLOP/s", kTrillion},  Unit{"PFLOP/s", kQuadrillion},
    Unit{"FLOPs/s", 1},         Unit{"KFLOPs/s", kThousand}, Unit{"MFLOPs/s", kMillion},
    Unit{"GFLOPs/s", kBillion}, Unit{"TFLOPs/s", kTrillion}, Unit{"PFLOPs/s", kQuadrillion},
};
constexpr std::array kDurationUnits{
    Unit{"ns", 1},
    Unit{"us", kThousand},
    Unit{"ms", kMillion},
    Unit{"s", kBillion},
    Unit{"min", kMinute, true},
    Unit{"h", 60 * kMinute, true},
    Unit{"\u00B5s", kThousand},  // micro sign
    Unit{"\u03BCs", kThousand},  // Greek mu
};

struct Family {
  std::string_view what;      // "a size"
  std::string_view examples;  // "80GiB or 512MB"
  std::string_view usual;     // the unit to suggest when none is given
  std::span<const Unit> units;
};
constexpr std::array kFamilies{
    Family{"a size", "80GiB or 512MB", "GiB", kSizeUnits},
    Family{"a bandwidth", "3.35TB/s or 64GB/s", "GB/s", kBandwidthUnits},
    Family{"a compute rate", "989TFLOP/s", "TFLOP/s", kFlopsUnits},
    Family{"a duration", "60s or 5ms", "s", kDurationUnits},
};
constexpr const Family& kSizes = kFamilies[0];
constexpr const Family& kBandwidths = kFamilies[1];
constexpr const Family& kFlopsRates = kFamilies[2];
constexpr const Family& kDurations = kFamilies[3];

// digits / 10^decimals, and the word that follows.
struct Number {
  std::string_view text;  // as written
  std::uint64_t digits = 0;
  int decimals = 0;
  std::string_view unit;
};

// numerator / denominator bytes, operations or nanoseconds.
struct Ratio {
  Wide numerator = 0;
  Wide denominator = 1;
  bool rounds = false;
};

std::string such_as(const Family& family) {
  return fmt::format("{} such as {}", family.what, family.examples);
}

std::string_view trim(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  const std::size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

// Appends one decimal digit; false when 64 bits are full.
bool append_digit(std::uint64_t& digits, char c) {
  const auto digit = static_cast<std::uint64_t>(c - '0');
  if (digits > (std::numeric_limits<std::uint64_t>::max() - digit) / 10) return false;
  digits = digits * 10 + digit;
  return true;
}

// The number at the front of `text`: digits, grouped by single underscores, and decimals.
Number split(std::string_view text, const Family& family) {
  constexpr int kMaxDecimals = 18;
  Number number;
  std::size_t at = 0;
  std::size_t whole_digits = 0;
  for (; at < text.size(); ++at) {
    const bool groups = text[at] == '_' && at > 0 && is_digit(text[at - 1]) &&
                        at + 1 < text.size() && is_digit(text[at + 1]);
    if (groups) continue;
    if (!is_digit(text[at])) break;
    ++whole_digits;
    if (!append_digit(number.digits, text[at])) refuse(excerpt(text) + " is too large");
  }
  if (whole_digits == 0)
    refuse(fmt::format("expected {}, found {}", such_as(family), tidemark::quoted_excerpt(text)));
  if (at + 1 < text.size() && text[at] == '.' && is_digit(text[at + 1])) {
    std::size_t end = ++at;
    while (end < text.size() && is_digit(text[end]))
      ++end;
    std::string_view fraction = text.substr(at, end - at);
    at = end;
    const std::size_t last = fraction.find_last_not_of('0');
    fraction = fraction.substr(0, last == std::string_view::npos ? 0 : last + 1);
    for (const char c : fraction) {
      if (++number.decimals > kMaxDecimals || !append_digit(number.digits, c)) {
        refuse(excerpt(text) + " has more digits than can be kept exactly");
      }
    }
  }
  number.text = text.substr(0, at);
  number.unit = trim(text.substr(at));
  return number;
}

const Unit* find_unit(const Family& family, std::string_view name) {
  for (const Unit& unit : family.units) {
    if (unit.name == name) return &unit;
  }
  return nullptr;
}

// True for e, E, e9, E-3: "1e9" without a unit, or with one.
bool is_exponent(std::string_view unit) {
  if (unit.empty() || (unit[0] != 'e' && unit[0] != 'E')) return false;
  std::size_t at = 1;
  if (at < unit.size() && (unit[at] == '+' || unit[at] == '-')) ++at;
  return at < unit.size() && is_digit(unit[at]);
}

// "80G", "80Gb" and "100Gb/s": a prefix whose base, or whose bits, are a guess. Also "5m".
void refuse_ambiguous(const Number& number, const Family& family) {
  const bool is_size = &family == &kSizes;
  if (&family == &kDurations && number.unit == "m") {
    refuse(fmt::format("{0}m is ambiguous: write {0}min or {0}ms", number.text));
  }
  if (!is_size && &family != &kBandwidths) return;
  constexpr std::string_view kPrefixes = "kKmMgGtTpP";
  constexpr std::string_view kUpper = "KKMMGGTTPP";
  constexpr std::array<int, 5> kTens{3, 6, 9, 12, 15};
  const std::size_t found = number.unit.empty() ? std::string_view::npos  //
                                                : kPrefixes.find(number.unit.front());
  if (found == std::string_view::npos) return;
  const std::string_view tail = number.unit.substr(1);
  const std::string_view per = is_size ? "" : "/s";
  const std::string choice =
      fmt::format("write {0}{1}B{2} (10^{3}) or {0}{1}iB{2} (2^{4})", number.text, kUpper[found],
                  per, kTens[found / 2], 10 * (found / 2 + 1));
  const std::string shown = std::string(number.text) + std::string(number.unit);
  if (tail.empty() || (!is_size && tail == "/s")) {
    refuse(fmt::format("{} is ambiguous: {}", shown, choice));
  }
  // A small letter is a slip for bytes only where the prefix is small too: "80gb".
  const bool upper_prefix = number.unit.front() >= 'A' && number.unit.front() <= 'Z';
  const bool bits = tail == "bit" || tail == "bit/s" || tail == "bps" ||
                    (upper_prefix && (tail == "b" || tail == "b/s"));
  if (bits) refuse(fmt::format("{} counts bits (8 bits are a byte): {}", shown, choice));
}

[[noreturn]] void refuse_unit(const Number& number, const Family& family) {
  const std::string shown = excerpt(std::string(number.text) + std::string(number.unit));
  if (is_exponent(number.unit)) {
    refuse(fmt::format("{} has an exponent; write {}", shown, such_as(family)));
  }
  if (number.unit.size() > 1 && number.unit[0] == ',' && is_digit(number.unit[1])) {
    refuse(fmt::format("{} has a comma; write {}.{}", shown, number.text,
                       excerpt(number.unit.substr(1))));
  }
  refuse_ambiguous(number, family);
  for (const Family& other : kFamilies) {
    if (find_unit(other, number.unit) == nullptr) continue;
    refuse(fmt::format("{} is {}; expected {}", shown, other.what, such_as(family)));
  }
  std::vector<std::string> names;
  for (const Unit& unit : family.units)
    names.emplace_back(unit.name);
  std::string hint = did_you_mean(number.unit, names);
  if (hint.empty()) hint = fmt::format("; write {}", such_as(family));
  refuse(fmt::format("{}: unknown unit {}{}", shown, tidemark::quoted_excerpt(number.unit), hint));
}

Ratio parse(std::string_view text, const Family& family) {
  text = trim(text);
  if (text.empty()) refuse(fmt::format("expected {}, found nothing", such_as(family)));
  if (text.front() == '-' && text.size() > 1 && is_digit(text[1])) {
    refuse(fmt::format("{} is negative; write {}", excerpt(text), such_as(family)));
  }
  const Number number = split(text, family);
  Unit unit{"", 1, false};
  if (number.unit.empty()) {
    const bool leading_zero =
        number.text.size() > 1 && number.text[0] == '0' && number.text[1] != '.';
    const bool whole_bytes = &family == &kSizes && number.decimals == 0 && !leading_zero;
    if (leading_zero && &family == &kSizes && number.decimals == 0) {
      refuse(fmt::format("{} has a leading zero, which some read as octal; leave it out",
                         excerpt(text)));
    }
    if (!whole_bytes && number.digits != 0) {
      refuse(fmt::format("{0} has no unit; is {0}{1} meant?", excerpt(text), family.usual));
    }
  } else if (const Unit* found = find_unit(family, number.unit)) {
    unit = *found;
  } else {
    refuse_unit(number, family);
  }
  Ratio ratio{.numerator = Wide{number.digits} * unit.scale, .rounds = unit.rounds};
  for (int i = 0; i < number.decimals; ++i)
    ratio.denominator *= 10;
  return ratio;
}

// Returns a whole number of bytes or nanoseconds.
std::int64_t whole(const Ratio& ratio, std::string_view text, std::string_view plural,
                   std::string_view singular) {
  const std::string shown = excerpt(trim(text));
  const bool exact = ratio.numerator % ratio.denominator == 0;
  if (!exact && !ratio.rounds) {
    refuse(fmt::format("{} is not a whole number of {}", shown, plural));
  }
  const Wide rounded = (ratio.numerator + ratio.denominator / 2) / ratio.denominator;
  if (ratio.numerator != 0 && ratio.numerator < ratio.denominator) {
    refuse(fmt::format("{} is less than one {}", shown, singular));
  }
  if (rounded > static_cast<Wide>(kLargestQuantity)) {
    refuse(fmt::format("{} is too large; the limit is {} {}", shown, kLargestQuantity, plural));
  }
  return static_cast<std::int64_t>(rounded);
}

double real(const Ratio& ratio) {
  if (ratio.numerator % ratio.denominator == 0) {
    const Wide quotient = ratio.numerator / ratio.denominator;
    return static_cast<double>(quotient);
  }
  return static_cast<double>(static_cast<long double>(ratio.numerator) /
                             static_cast<long double>(ratio.denominator));
}

}  // namespace
}  // namespace units_detail

Bytes parse_bytes(std::string_view text) {
  return Bytes(
      units_detail::whole(units_detail::parse(text, units_detail::kSizes), text, "bytes", "byte"));
}

BytesPerSecond parse_bandwidth(std::string_view text) {
  return {units_detail::real(units_detail::parse(text, units_detail::kBandwidths))};
}

FlopsPerSecond parse_flops_rate(std::string_view text) {
  return {units_detail::real(units_detail::parse(text, units_detail::kFlopsRates))};
}

Duration parse_duration(std::string_view text) {
  return Duration(units_detail::whole(units_detail::parse(text, units_detail::kDurations), text,
                                      "nanoseconds", "nanosecond"));
}

}  // namespace tidemark
