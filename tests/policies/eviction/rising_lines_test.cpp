#include "policies/eviction/online/rising_lines.hpp"

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include <doctest/doctest.h>

#include "tests/support/long_tests.hpp"

namespace tidemark::rising_lines_test {

using tidemark::RisingLines;

TEST_SUITE("unit") {
  TEST_CASE("a steep line overtakes an old one") {
    // 1 * (t - 0) and 3 * (t - 60) meet at 90.
    RisingLines lines(2);
    CHECK(lines.top(0) == RisingLines::kNobody);
    lines.set(0, {.slope = 1, .since = 0});
    CHECK(lines.top(0) == RisingLines::kNobody);
    lines.set(1, {.slope = 3, .since = 60});
    CHECK(lines.top(61) == 0);
    CHECK(lines.top(89) == 0);
    CHECK(lines.top(91) == 1);
    lines.remove(1);
    CHECK(lines.top(91) == 0);
    CHECK_FALSE(lines.contains(1));
  }

  TEST_CASE("lines of one height are indistinguishable and leave one after another") {
    constexpr std::uint32_t kMembers = 1000;  // more than lead at a time
    RisingLines lines(kMembers);
    for (std::uint32_t x = 0; x < kMembers; ++x)
      lines.set(x, {.slope = 0.5F, .since = 3});
    for (std::uint32_t left = kMembers; left > 0; --left) {
      const std::uint32_t top = lines.top(10);
      REQUIRE(lines.contains(top));
      lines.remove(top);
    }
    CHECK(lines.top(10) == RisingLines::kNobody);
  }
}

TEST_SUITE("property") {
  TEST_CASE("the highest line is that of a full scan, whatever comes, changes and goes") {
    const int every = test::runs_long_tests() ? 3 : 15;  // a full scan of 6,000 lines each time
    for (unsigned seed = 0; seed < 6; ++seed) {
      std::mt19937_64 random(seed);
      const auto below = [&](std::uint64_t count) { return random() % count; };
      constexpr std::uint32_t kMembers = 6000;
      // Clocks from a few ticks to the largest; slopes alike, over decades, and without cost.
      const std::int64_t tick = std::int64_t{1} << (seed * 9);
      RisingLines lines(kMembers);
      std::vector<RisingLines::Line> line(kMembers);
      std::vector<char> in(kMembers);
      std::int64_t now = 1;
      const auto height = [&](std::uint32_t x) { return in[x] != 0 ? line[x].at(now) : 0; };
      for (int step = 0; step < 30'000; ++step) {
        now += static_cast<std::int64_t>(below(4)) * tick;
        const auto x = static_cast<std::uint32_t>(below(kMembers));
        const float slope = seed % 2 == 0     ? 1 + 0.01F * static_cast<float>(below(100))
                            : below(500) == 0 ? 0x1p127F
                                              : std::exp2(static_cast<float>(below(40)) - 20.0F);
        const std::int64_t since = now - static_cast<std::int64_t>(below(3)) * tick;
        line[x] = {slope, std::max<std::int64_t>(0, since)};
        in[x] = 1;
        lines.set(x, line[x]);
        if (step < 8000 || step % every != 0) continue;
        const std::uint32_t top = lines.top(now);
        double highest = 0;
        for (std::uint32_t y = 0; y < kMembers; ++y)
          highest = std::max(highest, height(y));
        if (highest == 0) continue;
        REQUIRE(top != RisingLines::kNobody);
        CHECK(height(top) >= highest * (1 - 1e-12));
        // Every other line that comes near is shown exactly once.
        const double least = highest * (1 - 1e-3);
        std::vector<std::uint32_t> shown;
        lines.each_beside(
            top, now, [&] { return least; }, [&](std::uint32_t y) { shown.push_back(y); });
        std::vector<std::uint32_t> near;
        for (std::uint32_t y = 0; y < kMembers; ++y) {
          if (y != top && height(y) >= least) near.push_back(y);
        }
        std::sort(shown.begin(), shown.end());
        CHECK(shown == near);
        if (below(2) == 0) {
          lines.remove(top);
          in[top] = 0;
        }
      }
    }
  }
}

}  // namespace tidemark::rising_lines_test
