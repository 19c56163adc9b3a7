#include "scenarios/results/read_result.hpp"

#include <set>
#include <sstream>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "scenarios/results/result_document.hpp"
#include "scenarios/results/results_csv.hpp"
#include "scenarios/studies/simulate_points.hpp"
#include "tests/scenarios/scenario_files.hpp"

namespace tidemark::read_result_test {
namespace {

// Points that fit, do not fit on the device or on the host, have no plan, thrash, cannot be built.
constexpr const char* kSweeps[] = {
    "{name: fits or not, model: gpt2, hardware: {gpu: v100-sxm-16gb, count: 2}, training: "
    "{sequence: 512}, sweep: {matrix: {training.micro_batch: [1, 64], training.optimizer: [sgd, "
    "nonsense], policies: [[], [checkpoint_every: {period: 3}]]}}}",
    "{model: {preset: gpt2, layers: 3}, hardware: a100-sxm-40gb, training: {micro_batch: 4, "
    "sequence: 256, load: {format: pickle}}, sweep: {matrix: {policies: [[optimal: {budget: 1MiB, "
    "iterations: 20}], "
    "[optimal: {budget: 90GiB, iterations: 20}], [revolve: {budget: 1GiB}], [offload_activations, "
    "offload_optimizer]], allocator: [torch, bfc, ideal, packed]}}}",
    "{model: {preset: gpt2, layers: 4}, hardware: {gpu: a100-sxm-40gb, host: {memory: 1GiB}}, "
    "training: {micro_batch: 16, sequence: 512}, sweep: {matrix: {policies: "
    "[[offload_activations], "
    "[eviction: {heuristic: dtr_eq, budget: 3GiB}], [eviction: {heuristic: lru, budget: 2GiB, "
    "thrash_factor: 1.01}]]}}}",
    "{model: {preset: gpt, layers: 4, width: 64, heads: 2, vocab: 256}, hardware: {gpu: "
    "h100-sxm-80gb, count: 4}, training: {accumulate: 4}, sweep: {matrix: {policies: [[pipeline: "
    "{size: 2}], [pipeline: {size: 4}, checkpoint_every: {period: 1}], [tensor_parallel: {size: "
    "2}, "
    "zero: {stage: 2}]]}}}",
    "{model: {preset: gpt, layers: 2, width: 64, heads: 2, vocab: 256}, hardware: h100-sxm-80gb, "
    "sweep: {matrix: {training.mode: [forward, train], training.hold_output: [\"true\"], "
    "training.hold_output_until: [end_of_step, next_output]}}}",
};

std::string csv_of(std::span<const PointResult> points) {
  std::ostringstream out;
  write_results_csv(out, points);
  return out.str();
}

}  // namespace

TEST_SUITE("property") {
  TEST_CASE("an entry of the result document is read as the point that it was written from") {
    std::set<PointStatus> statuses;
    std::set<RunStatus> runs;
    for (const char* text : kSweeps) {
      const std::vector<PointResult> points =
          simulate_points(parse_document(text, "test.yaml"), environment(), 2,
                          {.convergence_limit = kConvergenceLimit, .suggestions = true});
      const nlohmann::ordered_json document = result_document(points);
      // The entry goes through text, as on disk.
      const auto again = nlohmann::ordered_json::parse(document.dump());
      std::vector<PointResult> read;
      for (const nlohmann::ordered_json& entry : again.at("points"))
        read.push_back(read_point(entry));
      CHECK(result_document(read).dump() == document.dump());
      CHECK(csv_of(read) == csv_of(points));
      for (const PointResult& point : points) {
        statuses.insert(point.status);
        if (point.status != PointStatus::kError) runs.insert(point.run.status);
      }
    }
    CHECK(statuses.size() == 4);
    CHECK(runs.size() >= 3);
  }

  TEST_CASE("what is no entry of a result document is refused") {
    const PointResult point =
        simulate_points(
            parse_document("{model: gpt2, hardware: a100-sxm-40gb, training: {sequence: 64}}",
                           "test.yaml"),
            environment(), 1, {})
            .front();
    const auto entry = result_document(std::span(&point, 1)).at("points").at(0);
    static_cast<void>(read_point(entry));
    for (const auto& [key, value] : entry.items()) {
      CAPTURE(key);
      auto damaged = entry;
      damaged.erase(key);
      CHECK_THROWS(static_cast<void>(read_point(damaged)));
      damaged[key] = 7.5;
      CHECK_THROWS(static_cast<void>(read_point(damaged)));
    }
    auto unknown = entry;
    unknown["status"] = "fine";
    CHECK_THROWS_WITH_AS(static_cast<void>(read_point(unknown)), doctest::Contains("fine"),
                         UserError);
  }
}

}  // namespace tidemark::read_result_test
