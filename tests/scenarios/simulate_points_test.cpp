// Points of a sweep with the runs behind them.
#include "scenarios/studies/simulate_points.hpp"

#include <mutex>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "graph/core/errors.hpp"
#include "scenarios/read/environment.hpp"
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

  TEST_CASE("a mistake that no point changes is one error, others are those of their points") {
    const auto with = [](std::string_view training, std::string_view matrix) {
      return parse_document(
          fmt::format("{{model: {{preset: gpt, layers: 2, width: 64, heads: 4, vocab: 512, "
                      "sequence: 32}}, hardware: a100-sxm-80gb, training: {{{}}}, sweep: {{matrix: "
                      "{{{}}}}}}}",
                      training, matrix),
          "sweep.yaml");
    };
    const auto errors = [](const Value& document) {
      int count = 0;
      for (const PointResult& point : simulate_points(document, default_environment(), 1, {}, {}))
        count += point.status == PointStatus::kError ? 1 : 0;
      return count;
    };
    const std::string sizes = "training.micro_batch: [1, 2]";
    CHECK_THROWS_WITH_AS(errors(with("sequence: 32, optimzer: adam", sizes)),
                         doctest::Contains("optimzer"), UserError);
    // The matrix gives what the scenario lacks, or makes the mistake.
    CHECK(errors(with("sequence: 32, optimizer: adan", sizes + ", training.optimizer: [adam]")) ==
          0);
    CHECK(errors(with("sequence: 32", sizes + ", training.optimizer: [adan]")) == 2);
    CHECK(errors(with("sequence: 32", sizes + ", training.optimizer: [adan, adam]")) == 2);
    // The same holds for the points of a shard.
    CHECK_THROWS_AS(simulate_points(with("sequence: 32, optimzer: adam", sizes),
                                    default_environment(), 1, {}, {}, {true, false}),
                    UserError);
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
