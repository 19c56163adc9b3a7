// Points of a sweep with the runs behind them.
#include "scenarios/studies/simulate_points.hpp"

#include <mutex>
#include <vector>

#include <doctest/doctest.h>

#include "scenarios/results/document_json.hpp"
#include "scenarios/results/read_result.hpp"
#include "scenarios/results/result_document.hpp"
#include "tests/scenarios/scenario_files.hpp"

namespace tidemark::simulate_points_test {

namespace {

Value swept() {
  return parse_document(
      "{model: {preset: gpt, layers: 2, width: 64, heads: 4, vocab: 512, sequence: 32}, "
      "hardware: a100-sxm-80gb, training: {micro_batch: 1, sequence: 32}, "
      "sweep: {matrix: {training.micro_batch: [1, 2, 4], policies: [[], [checkpoint_every: "
      "{period: 1}]]}}}",
      "sweep.yaml");
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("the run behind each point comes with its figures, and each point comes once") {
    std::vector<int> calls(6);
    std::vector<std::int64_t> highest(6);
    std::mutex mutex;
    PointsListener listener;
    listener.detail = [&](std::size_t index, const SimulatedPoint& point) {
      const std::lock_guard lock(mutex);
      ++calls[index];
      REQUIRE(point.detail != nullptr);
      const MemoryTimeline& timeline = point.detail->detail.timeline;
      for (const TimelinePoint& at : timeline.points) {
        if (at.time >= timeline.last_step_begin)
          highest[index] = std::max(highest[index], at.live.count);
      }
    };
    const std::vector<PointResult> points =
        simulate_points(swept(), environment(), 2, {.smallest_capacity = false}, listener);
    REQUIRE(points.size() == 6);
    CHECK(calls == std::vector<int>{1, 1, 1, 1, 1, 1});
    for (std::size_t i = 0; i < points.size(); ++i)
      CHECK(highest[i] == points[i].run.live.bytes.count);
  }

  TEST_CASE("overrides stay values up to the result document, and come back from it") {
    const std::vector<PointResult> points =
        simulate_points(swept(), environment(), 1, {.smallest_capacity = false});
    const PointResult& last = points.back();
    REQUIRE(last.overrides.size() == 2);
    CHECK(last.overrides[0].key == "training.micro_batch");
    CHECK(last.overrides[0].value.scalar == "4");
    CHECK(last.overrides[1].value.is_sequence());
    const auto entry = result_document(std::span(&last, 1)).at("points").at(0);
    CHECK(entry["overrides"]["training.micro_batch"] == 4);
    CHECK(entry["overrides"]["policies"][0]["checkpoint_every"]["period"] == 1);
    const PointResult read = read_point(entry);
    for (std::size_t i = 0; i < 2; ++i)
      CHECK(as_json(read.overrides[i].value) == as_json(last.overrides[i].value));
  }
}

}  // namespace tidemark::simulate_points_test
