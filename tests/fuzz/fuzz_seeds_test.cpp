// Readers of files of others, with what is right, with what once broke them, and with damage.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "tests/fuzz/fuzz_target.hpp"
#include "tests/support/long_tests.hpp"
#include "tests/support/paths.hpp"

namespace tidemark::fuzz_seeds_test {

namespace {

// Damages a text: flips bits; deletes, repeats and inserts pieces; makes numbers extreme.
class Damage {
 public:
  explicit Damage(std::uint64_t seed) : random_(seed) {}

  [[nodiscard]] std::string of(std::string bytes, const std::string& other) {
    for (std::size_t times = 1 + below(3); times > 0; --times)
      once(bytes, other);
    return bytes;
  }

 private:
  std::size_t below(std::size_t bound) {
    return std::uniform_int_distribution<std::size_t>(0, bound - 1)(random_);
  }

  void once(std::string& bytes, const std::string& other) {
    static constexpr std::array<std::string_view, 12> extremes = {"0",
                                                                  "-1",
                                                                  "1",
                                                                  "4294967296",
                                                                  "9223372036854775807",
                                                                  "-9223372036854775808",
                                                                  "1e308",
                                                                  "nan",
                                                                  "[]",
                                                                  "{}",
                                                                  "null",
                                                                  "\"\""};
    if (bytes.empty()) bytes = "0";
    const std::size_t at = below(bytes.size());
    const std::size_t length = 1 + below(std::min<std::size_t>(32, bytes.size() - at));
    switch (below(6)) {
      case 0:
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(8)));
        break;
      case 1:
        bytes.erase(at, length);
        break;
      case 2:
        bytes.insert(at, bytes.substr(at, length));
        break;
      case 3:
        bytes.resize(at);
        break;
      case 4:
        bytes.insert(at, other.substr(below(other.size() + 1), 1 + below(64)));
        break;
      default:
        replace_number(bytes, at, extremes[below(extremes.size())]);
    }
  }

  // Replaces the first number from `at` on, or what stands there.
  static void replace_number(std::string& bytes, std::size_t at, std::string_view text) {
    constexpr std::string_view digits = "0123456789";
    std::size_t begin = bytes.find_first_of(digits, at);
    if (begin == std::string::npos) begin = at;
    std::size_t end = bytes.find_first_not_of(digits, begin);
    if (end == std::string::npos) end = bytes.size();
    bytes.replace(begin, std::max<std::size_t>(1, end - begin), text);
  }

  std::mt19937_64 random_;
};

// Returns what went wrong, empty if nothing did.
std::string fault_of(const fuzz::FuzzTarget& target, const std::string& bytes) {
  try {
    fuzz::run_target(target, bytes);
    return {};
  } catch (const std::exception& error) {
    return error.what();
  }
}

}  // namespace

TEST_SUITE("property") {
  TEST_CASE("every reader accepts its seeds, and damaged ones are mistakes of the user") {
    const std::size_t damaged = test::runs_long_tests() ? 3000 : 60;
    for (const fuzz::FuzzTarget& target : fuzz::fuzz_targets()) {
      CAPTURE(target.name);
      const std::vector<std::string> seeds = fuzz::seeds_of(target, test::source_path());
      REQUIRE(!seeds.empty());
      std::size_t accepted = 0;
      for (const std::string& seed : seeds) {
        CAPTURE(seed.substr(0, 200));
        std::string fault;
        try {
          if (fuzz::run_target(target, seed)) ++accepted;
        } catch (const std::exception& error) {
          fault = error.what();
        }
        CHECK(fault == "");
      }
#ifndef TIDEMARK_READS_ONNX
      if (target.name == "onnx") continue;  // this build reads none
#endif
      CHECK(accepted > 0);
      Damage damage(accepted);
      for (std::size_t i = 0; i < damaged; ++i) {
        const std::string bytes =
            damage.of(seeds[i % seeds.size()], seeds[(i * 7 + 1) % seeds.size()]);
        CAPTURE(bytes.substr(0, 2000));
        CHECK(fault_of(target, bytes) == "");
      }
    }
  }
}

}  // namespace tidemark::fuzz_seeds_test
