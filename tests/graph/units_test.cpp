#include "graph/core/units.hpp"

#include <chrono>
#include <limits>
#include <stdexcept>
#include <string>

#include <doctest/doctest.h>

namespace tidemark::units_test {
namespace {

// Returns the message of a parser for a text that it refuses.
template <class Parser>
std::string refusal(Parser parse, std::string_view text) {
  try {
    static_cast<void>(parse(text));
  } catch (const std::invalid_argument& problem) {
    return problem.what();
  }
  return "accepted";
}

TEST_SUITE("unit") {
  TEST_CASE("sizes are read in powers of 1000 and of 1024") {
    CHECK(parse_bytes("80GiB") == Bytes(85'899'345'920));  // 80 * 2^30
    CHECK(parse_bytes("80GB") == Bytes(80'000'000'000));
    CHECK(parse_bytes("512B") == Bytes(512));
    CHECK(parse_bytes("1KB") == Bytes(1000));
    CHECK(parse_bytes("1kB") == Bytes(1000));
    CHECK(parse_bytes("1KiB") == Bytes(1024));
    CHECK(parse_bytes("3MB") == Bytes(3'000'000));
    CHECK(parse_bytes("3MiB") == Bytes(3'145'728));
    CHECK(parse_bytes("1PiB") == Bytes(1'125'899'906'842'624));
    CHECK(parse_bytes("4096") == Bytes(4096));
    CHECK(parse_bytes("1_000_000") == Bytes(1'000'000));
    CHECK(parse_bytes("  24 GiB ") == Bytes(25'769'803'776));
    CHECK(parse_bytes("0") == Bytes(0));
    CHECK(parse_bytes("1152921504606846976").count == kLargestQuantity);
  }

  TEST_CASE("decimals of a size are exact, and rounded to a byte only in binary units") {
    CHECK(parse_bytes("3.35TB") == Bytes(3'350'000'000'000));
    CHECK(parse_bytes("1.5GiB") == Bytes(1'610'612'736));
    CHECK(parse_bytes("0.1GiB") == Bytes(107'374'182));  // 107374182.4
    CHECK(parse_bytes("0.3KiB") == Bytes(307));          // 307.2
    CHECK(parse_bytes("1.2500KB") == Bytes(1250));
    CHECK(refusal(parse_bytes, "0.3B") == "0.3B is not a whole number of bytes");
    CHECK(refusal(parse_bytes, "1.2345KB") == "1.2345KB is not a whole number of bytes");
    CHECK(refusal(parse_bytes, "0.0001KiB") == "0.0001KiB is less than one byte");
  }

  TEST_CASE("a size without its B is refused because tools disagree on it") {
    CHECK(refusal(parse_bytes, "80G") == "80G is ambiguous: write 80GB (10^9) or 80GiB (2^30)");
    CHECK(refusal(parse_bytes, "1.5t") ==
          "1.5t is ambiguous: write 1.5TB (10^12) or 1.5TiB (2^40)");
    CHECK(refusal(parse_bytes, "80Gb") ==
          "80Gb counts bits (8 bits are a byte): write 80GB (10^9) or 80GiB (2^30)");
    CHECK(refusal(parse_bytes, "64kbit") ==
          "64kbit counts bits (8 bits are a byte): write 64KB (10^3) or 64KiB (2^10)");
  }

  TEST_CASE("a misspelt unit of size names the nearest one") {
    CHECK(refusal(parse_bytes, "80gib") == "80gib: unknown unit 'gib'; did you mean 'GiB'?");
    CHECK(refusal(parse_bytes, "80gb") == "80gb: unknown unit 'gb'; did you mean 'GB'?");
    CHECK(refusal(parse_bytes, "80GIB") == "80GIB: unknown unit 'GIB'; did you mean 'GiB'?");
    CHECK(refusal(parse_bytes, "80 gigabytes") ==
          "80gigabytes: unknown unit 'gigabytes'; write a size such as 80GiB or 512MB");
    CHECK(refusal(parse_bytes, "1,5GiB") == "1,5GiB has a comma; write 1.5GiB");
  }

  TEST_CASE("what is not a size is refused with what to write instead") {
    CHECK(refusal(parse_bytes, "") == "expected a size such as 80GiB or 512MB, found nothing");
    CHECK(refusal(parse_bytes, "many") == "expected a size such as 80GiB or 512MB, found 'many'");
    CHECK(refusal(parse_bytes, "nan") == "expected a size such as 80GiB or 512MB, found 'nan'");
    CHECK(refusal(parse_bytes, "inf") == "expected a size such as 80GiB or 512MB, found 'inf'");
    CHECK(refusal(parse_bytes, "GiB") == "expected a size such as 80GiB or 512MB, found 'GiB'");
    CHECK(refusal(parse_bytes, ".5GiB") == "expected a size such as 80GiB or 512MB, found '.5GiB'");
    CHECK(refusal(parse_bytes, "-5GiB") ==
          "-5GiB is negative; write a size such as 80GiB or 512MB");
    CHECK(refusal(parse_bytes, "1e9") ==
          "1e9 has an exponent; write a size such as 80GiB or 512MB");
    CHECK(refusal(parse_bytes, "1.5") == "1.5 has no unit; is 1.5GiB meant?");
    CHECK(refusal(parse_bytes, "0100") ==
          "0100 has a leading zero, which some read as octal; leave it out");
    CHECK(refusal(parse_bytes, "60s") ==
          "60s is a duration; expected a size such as 80GiB or 512MB");
    CHECK(refusal(parse_bytes, "3TB/s") ==
          "3TB/s is a bandwidth; expected a size such as 80GiB or 512MB");
    CHECK(refusal(parse_bytes, "1__0MB") ==
          "1__0MB: unknown unit '__0MB'; write a size such as 80GiB or 512MB");
  }

  TEST_CASE("a size above 1 EiB is refused") {
    CHECK(parse_bytes("1024PiB") == Bytes(kLargestQuantity));
    CHECK(refusal(parse_bytes, "1025PiB") ==
          "1025PiB is too large; the limit is 1152921504606846976 bytes");
    CHECK(refusal(parse_bytes, "1152921504606846977") ==
          "1152921504606846977 is too large; the limit is 1152921504606846976 bytes");
    CHECK(refusal(parse_bytes, "99999999999999999999GB") == "99999999999999999999GB is too large");
    CHECK(refusal(parse_bytes, "18446744073709551615PiB") ==
          "18446744073709551615PiB is too large; the limit is 1152921504606846976 bytes");
    CHECK(refusal(parse_bytes, "0.1234567890123456789GiB") ==
          "0.1234567890123456789GiB has more digits than can be kept exactly");
  }

  TEST_CASE("durations are read from nanoseconds to hours") {
    using namespace std::chrono_literals;
    CHECK(parse_duration("60s") == 60s);
    CHECK(parse_duration("5ms") == 5ms);
    CHECK(parse_duration("2.5us") == 2500ns);
    CHECK(parse_duration("2.5\u00B5s") == 2500ns);
    CHECK(parse_duration("7 ns") == 7ns);
    CHECK(parse_duration("1.5min") == 90s);
    CHECK(parse_duration("2h") == 2h);
    CHECK(parse_duration("0") == 0s);
    CHECK(refusal(parse_duration, "60") == "60 has no unit; is 60s meant?");
    CHECK(refusal(parse_duration, "5m") == "5m is ambiguous: write 5min or 5ms");
    CHECK(refusal(parse_duration, "80GiB") ==
          "80GiB is a size; expected a duration such as 60s or 5ms");
    CHECK(refusal(parse_duration, "5MS") == "5MS: unknown unit 'MS'; did you mean 'ms'?");
    CHECK(refusal(parse_duration, "1.5ns") == "1.5ns is not a whole number of nanoseconds");
    CHECK(refusal(parse_duration, "-1s") == "-1s is negative; write a duration such as 60s or 5ms");
    // 2^60 ns are 36 years, or 320255.97 hours.
    CHECK(parse_duration("320255h") == 320255h);
    CHECK(refusal(parse_duration, "320256h") ==
          "320256h is too large; the limit is 1152921504606846976 nanoseconds");
  }

  TEST_CASE("rates are read with their time, in bytes and not bits") {
    CHECK(parse_bandwidth("3.35TB/s").value == 3.35e12);
    CHECK(parse_bandwidth("64 GB/s").value == 64e9);
    CHECK(parse_bandwidth("1GiB/s").value == 1073741824.0);
    CHECK(parse_bandwidth("0.5B/s").value == 0.5);
    CHECK(parse_flops_rate("989TFLOP/s").value == 989e12);
    CHECK(parse_flops_rate("989TFLOPs/s").value == 989e12);
    CHECK(parse_flops_rate("1.979PFLOP/s").value == 1.979e15);
    CHECK(refusal(parse_bandwidth, "400Gb/s") ==
          "400Gb/s counts bits (8 bits are a byte): write 400GB/s (10^9) or 400GiB/s (2^30)");
    CHECK(refusal(parse_bandwidth, "3T/s") ==
          "3T/s is ambiguous: write 3TB/s (10^12) or 3TiB/s (2^40)");
    CHECK(refusal(parse_bandwidth, "80GB") ==
          "80GB is a size; expected a bandwidth such as 3.35TB/s or 64GB/s");
    CHECK(refusal(parse_bandwidth, "64") == "64 has no unit; is 64GB/s meant?");
    CHECK(refusal(parse_flops_rate, "989TFLOPS") ==
          "989TFLOPS: unknown unit 'TFLOPS'; did you mean 'TFLOP/s'?");
    CHECK(refusal(parse_flops_rate, "989") == "989 has no unit; is 989TFLOP/s meant?");
  }

  TEST_CASE("a refusal shows no control characters and not the whole of a long text") {
    CHECK(refusal(parse_bytes, "a\tb\x01") ==
          "expected a size such as 80GiB or 512MB, found 'a\\tb\\x01'");
    CHECK(refusal(parse_bytes, std::string(1000, 'x')) ==
          "expected a size such as 80GiB or 512MB, found '" + std::string(60, 'x') + "...'");
  }

  TEST_CASE("quantities are written for people to three digits") {
    CHECK(format_bytes(Bytes(0)) == "0 B");
    CHECK(format_bytes(Bytes(1023)) == "1023 B");
    CHECK(format_bytes(Bytes(1536)) == "1.5 KiB");
    CHECK(format_bytes(80 * kGiB) == "80 GiB");
    CHECK(format_bytes(Bytes(13'207'024'435)) == "12.3 GiB");  // 12.3 * 2^30
    CHECK(format_bytes(Bytes(1'073'741'823)) == "1 GiB");      // not 1024 MiB
    CHECK(format_bytes(Bytes(-1536)) == "-1.5 KiB");
    CHECK(format_bytes(Bytes(std::numeric_limits<std::int64_t>::min())) == "-8 EiB");
    CHECK(format_duration(Duration(0)) == "0 ns");
    CHECK(format_duration(Duration(1'250'000)) == "1.25 ms");
    CHECK(format_duration(Duration(999'999)) == "1 ms");
    CHECK(format_duration(std::chrono::seconds(75)) == "75 s");
    CHECK(format_duration(std::chrono::seconds(150)) == "2.5 min");
    CHECK(format_duration(std::chrono::hours(36)) == "36 h");
    CHECK(format_bandwidth({3.35e12}) == "3.35 TB/s");
    CHECK(format_flops_rate({989e12}) == "989 TFLOP/s");
    CHECK(format_count(1.24e9) == "1.24 B");
    CHECK(format_count(494e6) == "494 M");
    CHECK(format_count(12'500) == "12.5 k");
    CHECK(format_count(7) == "7");
    CHECK(format_count(std::numeric_limits<double>::infinity()) == "inf");
  }

  TEST_CASE("quantities are written so that they read back the same") {
    for (const std::int64_t count : {std::int64_t{0}, std::int64_t{1001}, std::int64_t{1} << 29,
                                     std::int64_t{3} << 41, std::int64_t{1} << 60}) {
      CHECK(parse_bytes(write_bytes(Bytes(count))) == Bytes(count));
    }
    CHECK(write_bytes(512 * kMiB) == "512 MiB");
    CHECK(write_bytes(Bytes(1001)) == "1001 B");
    CHECK(write_duration(std::chrono::seconds(60)) == "60 s");
    CHECK(write_duration(Duration(1500)) == "1500 ns");
    CHECK(write_duration(Duration(0)) == "0 s");
    CHECK(write_bandwidth({3.35e12}) == "3.35 TB/s");
    CHECK(write_flops_rate({989e12}) == "989 TFLOP/s");
    CHECK(parse_bandwidth(write_bandwidth({64e9})).value == 64e9);
  }
}

}  // namespace
}  // namespace tidemark::units_test
