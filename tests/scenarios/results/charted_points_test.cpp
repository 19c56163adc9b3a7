#include "scenarios/results/charted_points.hpp"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

#include <doctest/doctest.h>

namespace tidemark::charted_points_test {
namespace {

PointResult point_of(std::int64_t bytes, std::int64_t nanoseconds, double samples = 1,
                     PointStatus status = PointStatus::kFits) {
  PointResult point;
  point.status = status;
  point.run.reserved.bytes = Bytes(bytes);
  point.run.step = Duration(nanoseconds);
  point.samples = samples;
  return point;
}

std::vector<PointResult> any_points(std::mt19937& random, std::size_t count) {
  std::vector<PointResult> points;
  const auto kinds = 1 + random() % 3;
  for (std::size_t i = 0; i < count; ++i) {
    const auto status = random() % 10 == 0  ? PointStatus::kError
                        : random() % 5 == 0 ? PointStatus::kOutOfMemory
                                            : PointStatus::kFits;
    points.push_back(point_of(static_cast<std::int64_t>(random() % 40),
                              1 + static_cast<std::int64_t>(random() % 40),
                              static_cast<double>(1 + random() % kinds), status));
    points.back().tokens =
        points.back().samples * (kinds == 3 ? static_cast<double>(1 + random() % 2) : 8);
  }
  return points;
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("few points all have charts, but those that could not be built") {
    std::vector<PointResult> points{point_of(3, 1), point_of(2, 2), point_of(1, 3)};
    CHECK(charted_points(points, 3) == std::vector<std::size_t>{0, 1, 2});
    points[1].status = PointStatus::kError;
    CHECK(charted_points(points, 3) == std::vector<std::size_t>{0, 2});
    CHECK(charted_points({}, 3).empty());
  }

  TEST_CASE("of many points the front, the slowest and the largest have charts") {
    std::vector<PointResult> points;
    for (int i = 0; i < 20; ++i)
      points.push_back(point_of(50, 50));
    points[7] = point_of(10, 40);
    points[9] = point_of(40, 10);
    points[13] = point_of(50, 90);
    points[15] = point_of(99, 50, 1, PointStatus::kOutOfMemory);
    CHECK(charted_points(points, 6) == std::vector<std::size_t>{0, 1, 7, 9, 13, 15});
    // Twice the samples in twice the time is as fast.
    points[3] = point_of(9, 60, 2);
    CHECK(charted_points(points, 4) == std::vector<std::size_t>{3, 9, 13, 15});
  }

  TEST_CASE("of a long front some have charts, with both ends") {
    std::vector<PointResult> points;
    for (int i = 0; i < 100; ++i)
      points.push_back(point_of(i, 100 - i));
    const std::vector<std::size_t> charted = charted_points(points, 12);
    CHECK(charted.size() == 12);
    CHECK(charted.front() == 0);
    CHECK(charted.back() == 99);
  }
}

TEST_SUITE("property") {
  TEST_CASE("points that come in any order leave a candidate for every chart") {
    std::mt19937 random(5);
    for (int round = 0; round < 200; ++round) {
      const std::vector<PointResult> points = any_points(random, 5 + random() % 60);
      constexpr std::size_t kMost = 8;
      std::vector<std::size_t> order(points.size());
      std::iota(order.begin(), order.end(), std::size_t{0});
      std::shuffle(order.begin(), order.end(), random);
      ChartCandidates candidates(kMost);
      std::vector<char> kept(points.size(), 0);
      for (const std::size_t i : order) {
        for (const std::size_t replaced : candidates.add(i, points[i]))
          kept[replaced] = 0;
        if (candidates.is_candidate(i)) kept[i] = 1;
      }
      const std::vector<std::size_t> charted = charted_points(points, kMost);
      CHECK(charted.size() <= kMost);
      for (const std::size_t i : charted) {
        CHECK(kept[i] == 1);
        CHECK(points[i].status != PointStatus::kError);
      }
      // Nothing that fits beats the fastest that has a chart.
      const WorkUnit unit = compared_unit(points);
      const auto fastest = [&](const auto& among) {
        double best = 1e9;
        for (const std::size_t i : among) {
          if (points[i].status == PointStatus::kFits)
            best = std::min(best, seconds_per(unit, points[i]).value_or(1e9));
        }
        return best;
      };
      CHECK(fastest(charted) == fastest(order));
    }
  }
}

}  // namespace tidemark::charted_points_test
