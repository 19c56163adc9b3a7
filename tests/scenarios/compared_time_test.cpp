#include "scenarios/results/compared_time.hpp"

#include <vector>

#include <doctest/doctest.h>

namespace tidemark::compared_time_test {

namespace {

// A point that trains on this much in a step of one second.
PointResult point_of(double samples, double tokens) {
  PointResult point;
  point.status = PointStatus::kFits;
  point.run.step = std::chrono::seconds(1);
  point.samples = samples;
  point.tokens = tokens;
  return point;
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("steps are compared where all do the same work") {
    const std::vector<PointResult> points{point_of(8, 4096), point_of(8, 4096)};
    CHECK(compared_unit(points) == WorkUnit::kStep);
    CHECK(seconds_per(WorkUnit::kStep, points[0]).value() == doctest::Approx(1));
  }

  TEST_CASE("batches are compared by the sample, sequences by the token") {
    const std::vector<PointResult> batches{point_of(8, 4096), point_of(16, 8192)};
    CHECK(compared_unit(batches) == WorkUnit::kSample);
    CHECK(seconds_per(WorkUnit::kSample, batches[1]).value() == doctest::Approx(1.0 / 16));
    const std::vector<PointResult> sequences{point_of(8, 4096), point_of(8, 8192)};
    CHECK(compared_unit(sequences) == WorkUnit::kThousandTokens);
    CHECK(seconds_per(WorkUnit::kThousandTokens, sequences[0]).value() ==
          doctest::Approx(1 / 4.096));
  }

  TEST_CASE("images beside text are compared by the sample") {
    const std::vector<PointResult> points{point_of(8, 4096), point_of(32, 0)};
    CHECK(compared_unit(points) == WorkUnit::kSample);
  }

  TEST_CASE("a point that could not be built has no say, and what is unknown has no time") {
    std::vector<PointResult> points{point_of(8, 4096), point_of(0, 0)};
    points[1].status = PointStatus::kError;
    CHECK(compared_unit(points) == WorkUnit::kStep);
    CHECK_FALSE(seconds_per(WorkUnit::kSample, points[1]));
  }
}

}  // namespace tidemark::compared_time_test
