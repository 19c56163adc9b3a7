// Quantities and how they are written: "80GiB", "3.35TB/s", "989TFLOP/s", "60s".
//
// GiB = 2^30 bytes, GB = 10^9 bytes. A bare integer is bytes; a bare letter ("80G") is an error,
// because tools disagree on whether it means GB or GiB.
#pragma once

#include <chrono>
#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

namespace tidemark {

// A number of bytes. 64-bit signed, so that differences are safe.
struct Bytes {
  std::int64_t count = 0;

  constexpr Bytes() = default;
  constexpr explicit Bytes(std::int64_t n) : count(n) {}
  friend constexpr bool operator==(Bytes, Bytes) = default;
  friend constexpr auto operator<=>(Bytes a, Bytes b) { return a.count <=> b.count; }
  constexpr Bytes& operator+=(Bytes other) {
    count += other.count;
    return *this;
  }
  constexpr Bytes& operator-=(Bytes other) {
    count -= other.count;
    return *this;
  }
  friend constexpr Bytes operator+(Bytes a, Bytes b) { return Bytes(a.count + b.count); }
  friend constexpr Bytes operator-(Bytes a, Bytes b) { return Bytes(a.count - b.count); }
  friend constexpr Bytes operator-(Bytes a) { return Bytes(-a.count); }
  friend constexpr Bytes operator*(Bytes a, std::int64_t n) { return Bytes(a.count * n); }
  friend constexpr Bytes operator*(std::int64_t n, Bytes a) { return a * n; }
  friend constexpr Bytes operator/(Bytes a, std::int64_t n) { return Bytes(a.count / n); }
  friend constexpr std::int64_t operator/(Bytes a, Bytes b) { return a.count / b.count; }
};

// Returns the least multiple of `unit` that is not below a size; the unit is above 0.
[[nodiscard]] constexpr Bytes round_up(Bytes size, Bytes unit) {
  return Bytes((size.count + unit.count - 1) / unit.count * unit.count);
}

// A number of elements of a tensor; a shape's extents are plain integers.
struct Elements {
  std::int64_t count = 0;

  constexpr Elements() = default;
  constexpr explicit Elements(std::int64_t n) : count(n) {}
  friend constexpr bool operator==(Elements, Elements) = default;
  friend constexpr auto operator<=>(Elements a, Elements b) { return a.count <=> b.count; }
  constexpr Elements& operator+=(Elements other) {
    count += other.count;
    return *this;
  }
  friend constexpr Elements operator+(Elements a, Elements b) {
    return Elements(a.count + b.count);
  }
};

// Floating-point operations; a multiply-add counts as two.
struct Flops {
  double count = 0;

  constexpr Flops() = default;
  constexpr explicit Flops(double n) : count(n) {}
  friend constexpr bool operator==(Flops, Flops) = default;
  friend constexpr auto operator<=>(Flops a, Flops b) { return a.count <=> b.count; }
  constexpr Flops& operator+=(Flops other) {
    count += other.count;
    return *this;
  }
  friend constexpr Flops operator+(Flops a, Flops b) { return Flops(a.count + b.count); }
  friend constexpr Flops operator*(Flops a, double n) { return Flops(a.count * n); }
};

using Duration = std::chrono::nanoseconds;

struct BytesPerSecond {
  double value = 0;
  friend constexpr bool operator==(BytesPerSecond, BytesPerSecond) = default;
  friend constexpr auto operator<=>(BytesPerSecond a, BytesPerSecond b) {
    return a.value <=> b.value;
  }
};
struct FlopsPerSecond {
  double value = 0;
  friend constexpr bool operator==(FlopsPerSecond, FlopsPerSecond) = default;
  friend constexpr auto operator<=>(FlopsPerSecond a, FlopsPerSecond b) {
    return a.value <=> b.value;
  }
};

inline constexpr Bytes kKiB{std::int64_t{1} << 10};
inline constexpr Bytes kMiB{std::int64_t{1} << 20};
inline constexpr Bytes kGiB{std::int64_t{1} << 30};

// Most bytes, and most nanoseconds, that anything may be given as: 1 EiB, 36 years. Sums of several
// of them stay within 64 bits.
inline constexpr std::int64_t kLargestQuantity = std::int64_t{1} << 60;

// The parsers accept surrounding blanks and decimals ("1.5GiB") and throw std::invalid_argument
// with a sentence that says what is wrong and what to write instead. Negative, overflowing, NaN and
// infinite quantities are errors; so are fractions of a byte ("0.3B"), letter case that changes the
// meaning ("80gib", "80Gb") and unit families of another kind ("80GiB" for a duration).
// The arithmetic is decimal, so "3.35TB" is 3350000000000 bytes. Where the unit is not a power of
// ten (KiB.., min, h) and the result is not whole, it is rounded to the nearest byte or nanosecond.
// A zero needs no unit.
[[nodiscard]] Bytes parse_bytes(std::string_view text);               // B KB MB GB TB PB, KiB..PiB
[[nodiscard]] BytesPerSecond parse_bandwidth(std::string_view text);  // the same, with /s
[[nodiscard]] FlopsPerSecond parse_flops_rate(
    std::string_view text);                                    // FLOP/s .. PFLOP/s (also GFLOPs/s)
[[nodiscard]] Duration parse_duration(std::string_view text);  // ns us ms s min h

// The formatters write for people, to three digits, trailing zeros left out: "12.3 GiB", "512 B",
// "1.25 ms", "3.35 TB/s", "1.24 B" parameters.
[[nodiscard]] std::string format_bytes(Bytes bytes);
[[nodiscard]] std::string format_duration(Duration duration);
[[nodiscard]] std::string format_bandwidth(BytesPerSecond rate);
[[nodiscard]] std::string format_flops_rate(FlopsPerSecond rate);
[[nodiscard]] std::string format_count(double count);  // 1.24 B, 494 M, 12.5 k

// The parsers read the same quantity back from what these write: "512 MiB", "1001 B", "60 s",
// "3.35 TB/s".
[[nodiscard]] std::string write_bytes(Bytes bytes);
[[nodiscard]] std::string write_duration(Duration duration);
[[nodiscard]] std::string write_bandwidth(BytesPerSecond rate);
[[nodiscard]] std::string write_flops_rate(FlopsPerSecond rate);

// Sizes that come from user input are multiplied and added with these, which return false when the
// result does not fit into 63 bits.
[[nodiscard]] inline bool checked_multiply(std::int64_t a, std::int64_t b, std::int64_t& product) {
  return !__builtin_mul_overflow(a, b, &product);
}
[[nodiscard]] inline bool checked_add(std::int64_t a, std::int64_t b, std::int64_t& sum) {
  return !__builtin_add_overflow(a, b, &sum);
}

}  // namespace tidemark
