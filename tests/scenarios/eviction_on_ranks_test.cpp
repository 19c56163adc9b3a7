// Eviction on ranks that communicate. Every run here proves the contents that it restores
// (sim/engine/content_check.hpp): a wrong one is an InternalError.
#include <algorithm>
#include <string>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "scenarios/studies/simulate_points.hpp"
#include "tests/scenarios/scenario_files.hpp"

namespace tidemark::eviction_on_ranks_test {
namespace {

PointResult gpt(const std::string& policies, Bytes capacity, const std::string& training = "") {
  const std::string text = fmt::format(
      "{{model: {{preset: gpt, layers: 4, width: 128, heads: 4, vocab: 512, sequence: 128}}, "
      "hardware: {{gpu: h100-sxm-80gb, hbm: {{capacity: {}B}}, count: 4, node: 4}}, allocator: "
      "ideal, training: {{framework: ideal, micro_batch: 16, precision: fp32, optimizer: "
      "adamw{}}}, "
      "policies: [{}]}}",
      capacity.count, training, policies);
  return simulate_points(parse_document(text, "s.yaml"), environment(), 1,
                         {.smallest_capacity = false})
      .front();
}

}  // namespace

TEST_SUITE("property") {
  TEST_CASE("what a rank computes from gathered, reduced and sent tensors is evicted") {
    for (const std::string parallel :
         {"fsdp: {version: 1}", "fsdp: {version: 2}",
          "fsdp: {version: 2, reshard_after_forward: "
          "false}",
          "zero: {stage: 3, persistent_below: 0, reduce_bucket: 100000}",
          "tensor_parallel: {size: 2}", "tensor_parallel: {size: 4, sequence: true}",
          "context_parallel: {size: 2}"}) {
      CAPTURE(parallel);
      for (const std::string training : {"", ", accumulate: 3"}) {
        CAPTURE(training);
        const PointResult whole = gpt(parallel, Bytes(8 * kGiB.count), training);
        REQUIRE(whole.status == PointStatus::kFits);
        const Bytes less(whole.run.live.bytes.count * 85 / 100);
        for (const std::string mode : {"eager", "ignore", "banish"}) {
          CAPTURE(mode);
          const PointResult point =
              gpt(fmt::format("{}, eviction: {{heuristic: dtr_eq, mode: {}}}", parallel, mode),
                  less, training);
          REQUIRE(point.status != PointStatus::kError);
          CHECK(point.status == PointStatus::kFits);
          CHECK(point.run.evictions > 0);
          CHECK(point.run.restores > 0);
          CHECK(point.run.live.bytes <= less);
          CHECK(point.run.step > whole.run.step);
        }
      }
    }
  }

  TEST_CASE("where eviction cannot tell gathered parameters apart, the result says so") {
    const auto warns = [](const std::string& policies) {
      const PointResult point = gpt(policies, Bytes(8 * kGiB.count));
      return std::any_of(point.warnings.begin(), point.warnings.end(), [](const std::string& text) {
        return text.find("eviction takes them for other values") != std::string::npos;
      });
    };
    CHECK(warns("fsdp: {reshard_after_forward: 2}, eviction"));
    CHECK_FALSE(warns("fsdp: {reshard_after_forward: 2}"));
    CHECK_FALSE(warns("fsdp: {}, eviction"));
  }
}

}  // namespace tidemark::eviction_on_ranks_test
