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
    CHECK(errors(with("sequence: 32, optimizer: adan", sizes + ", training.optimizer: [adan]")) ==
          2);
    // The same holds for the points of a shard.
    CHECK_THROWS_AS(simulate_points(with("sequence: 32, optimzer: adam", sizes),
                                    default_environment(), 1, {}, {}, {true, false}),
                    UserError);
  }

  TEST_CASE("a mistake that only the model or a policy shows is one error, too") {
    const auto with = [](std::string_view policies, std::string_view matrix) {
      return parse_document(
          fmt::format("{{model: {{preset: gpt, layers: 2, width: 64, heads: 4, vocab: 512, "
                      "sequence: 32}}, hardware: a100-sxm-80gb, training: {{sequence: 32}}, "
                      "policies: [{}], sweep: {{matrix: {{{}}}}}}}",
                      policies, matrix),
          "sweep.yaml");
    };
    int heard = 0;
    const auto rows = [&](const Value& document, const std::vector<bool>& wanted = {}) {
      heard = 0;
      PointsListener listener;
      listener.finished = [&](std::size_t, const PointResult&) { ++heard; };
      int count = 0;
      for (const PointResult& point : simulate_points(
               document, default_environment(), 2, {.smallest_capacity = false}, listener, wanted))
        count += point.error.empty() ? 0 : 1;  // those that are not wanted have none
      return count;
    };
    const std::string sizes = "training.micro_batch: [1, 2, 3]";
    const std::string lora = "lora: {rank: 4, targets: [nosuch]}";
    CHECK_THROWS_WITH_AS(rows(with(lora, sizes)), doctest::Contains("sweep.yaml:1:"), UserError);
    CHECK_THROWS_WITH_AS(rows(with(lora, sizes)), doctest::Contains("nosuch"), UserError);
    CHECK_THROWS_AS(rows(with("freeze: {layers: [nosuch]}", sizes)), UserError);
    const std::string split = "tensor_parallel: {size: 5}";
    CHECK_THROWS_AS(rows(with(split, sizes)), UserError);
    // Names of devices leave their number as it is.
    CHECK_THROWS_WITH_AS(rows(with(split, "hardware: [v100-sxm-32gb, a100-sxm-40gb]")),
                         doctest::Contains("hardware.count"), UserError);
    CHECK(heard == 0);
    // The points make the mistake, or have different ones, or one has none.
    CHECK(rows(with("lora: {rank: 4, targets: [c_attn]}",
                    sizes + ", policies.lora.targets: [[nosuch]]")) == 3);
    CHECK(rows(with(lora, "policies.lora.targets: [[nosuch], [nor_such]]")) == 2);
    CHECK(rows(with(lora, "policies.lora.targets: [[nosuch], [c_attn]]")) == 1);
    CHECK(rows(with(lora,
                    "policies: [[{lora: {rank: 4, targets: [nosuch]}}], [{lora: {rank: 8, "
                    "targets: [nosuch]}}]]")) == 2);
    CHECK(rows(with(split, "hardware: [{gpu: v100-sxm-32gb, count: 1}, a100-sxm-40gb]")) == 2);
    CHECK(heard == 2);
    // A shard whose points all fail has rows where others do not.
    const Value some = with("lora: {rank: 4, targets: [gate_proj]}",
                            "model: [{preset: gpt, layers: 2, width: 64, heads: 4, vocab: 512, "
                            "sequence: 32}, {preset: llama-3.2-1b, layers: 1}]");
    CHECK(rows(some, {true, false}) == 1);
    CHECK(heard == 1);
    CHECK_THROWS_AS(rows(with(lora, sizes), {true, false, false}), UserError);
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
