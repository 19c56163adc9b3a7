// FSDP and ZeRO gather units ahead of their use: the bytes of that, and the time that a step waits.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "tests/scenarios/linear_chains.hpp"

namespace tidemark::gathered_ahead_test {
namespace {

using test::chain;
using test::Widths;

constexpr const char* kFsdp = "precision: fp32";
constexpr const char* kMixed = "precision: bf16_mixed";

PointResult simulated(const Widths& widths, int count, const std::string& policies,
                      const std::string& training, int micro_batch = 2) {
  std::string text =
      test::chain_text(chain(widths), fmt::format("count: {}, node: 1024", count), policies,
                       "optimizer: {name: adamw, implementation: loop}, " + training);
  const std::string usual = "micro_batch: 2";
  text.replace(text.find(usual), usual.size(), fmt::format("micro_batch: {}", micro_batch));
  return test::simulate_fitting(text);
}

Duration busy(const PointResult& point, CollectiveKind kind) {
  Duration sum{};
  for (const Communication& used : point.communication)
    if (used.kind == kind) sum += used.busy;
  return sum;
}

TEST_SUITE("unit") {
  TEST_CASE("FSDP 1 frees a unit before it takes memory for the third one after") {
    // Compute is much slower than gathers here: without the limit the host runs ahead of it.
    const auto reserved = [](const char* limit) {
      const Widths w(13, 4096);
      const std::string text = fmt::format(
          "{{model: {}, hardware: {{gpu: h100-sxm-80gb, count: 8, hbm: {{capacity: 8TiB}}}}, "
          "training: {{micro_batch: 16384, loss: mse, precision: fp32}}, policies: [fsdp: "
          "{{version: "
          "1, param_dtype: bf16, limit_all_gathers: {}}}]}}",
          chain(w), limit);
      return simulate_points(parse_document(text, "s.yaml"), environment(), 1,
                             {.smallest_capacity = false})
          .front();
    };
    const PointResult limited = reserved("true");
    const PointResult unlimited = reserved("false");
    CHECK(limited.run.reserved.bytes < unlimited.run.reserved.bytes);
    CHECK(limited.run.live.bytes == unlimited.run.live.bytes);
  }

  TEST_CASE("what backward gathers when it needs it is freed in forward all the same") {
    const Widths w{256, 512, 512, 512, 512, 256};
    const auto live = [&](const char* prefetch) {
      return simulated(w, 4,
                       fmt::format("fsdp: {{param_dtype: bf16, reduce_dtype: fp32, prefetch: {}}}",
                                   prefetch),
                       kFsdp)
          .run.live.bytes;
    };
    CHECK(live("none") < live("pre"));
    CHECK(live("none") <= live("post"));
  }

  TEST_CASE("with no live parameters allowed nothing is gathered ahead") {
    const Widths w{256, 512, 512, 512, 512, 256};
    const char* options = "stage: 3, persistent_below: 0, max_reuse_distance: 0, reduce_bucket: 10";
    const auto step = [&](const char* more) {
      return simulated(w, 4, fmt::format("zero: {{{}, {}}}", options, more), kMixed).run;
    };
    const auto none = step("live_parameters: 0");
    CHECK(none.step == step("prefetch_bucket: 0").step);
    CHECK(none.live.bytes == step("prefetch_bucket: 0").live.bytes);
    // Otherwise the next unit is there beside the one in use.
    CHECK(none.live.bytes < step("live_parameters: 1000000000").live.bytes);
  }

  TEST_CASE("a gather that nothing issues ahead waits for the reduction before it") {
    // A group's communicator runs what it is given in that order. So behind each unit's backward
    // come its reduction and the next unit's gather, both of which compute waits for; a gather
    // ahead is in front of that reduction, and there is enough compute to hide both.
    constexpr std::int64_t kUnits = 8;
    for (const int version : {1, 2}) {
      CAPTURE(version);
      const Widths w(kUnits + 1, 8192);
      const auto step = [&](const char* prefetch) {
        return simulated(w, 8,
                         fmt::format("fsdp: {{version: {}, param_dtype: bf16, "
                                     "reduce_dtype: fp32, prefetch: {}}}",
                                     version, prefetch),
                         kFsdp, 65536);
      };
      const PointResult none = step("none");
      const PointResult pre = step("pre");
      const auto all = static_cast<double>(kUnits);
      const double gather = static_cast<double>(busy(pre, CollectiveKind::kAllGather).count()) /
                            (2 * all);  // forward's and backward's
      const double reduction =
          static_cast<double>(busy(pre, CollectiveKind::kReduceScatter).count()) / all;
      const double waits = static_cast<double>((none.run.step - pre.run.step).count());
      CHECK(waits / ((all - 1) * (gather + reduction)) == doctest::Approx(1).epsilon(0.1));
    }
  }

  TEST_CASE("micro-batches add their reduced gradients beside the next unit's backward") {
    // The addition is on the stream that reduces last, so that compute does not wait for any of
    // them but the last of a step: the stream of reductions, or that of sums over replicas.
    const Widths w(9, 8192);
    for (const char* reduce : {"reduce_dtype: fp32", "reduce_dtype: bf16",
                               "reduce_dtype: fp32, shard: 4", "reduce_dtype: bf16, shard: 4"}) {
      for (const int version : {1, 2}) {
        CAPTURE(reduce);
        CAPTURE(version);
        const auto step = [&](int accumulate) {
          return simulated(
              w, 8, fmt::format("fsdp: {{version: {}, param_dtype: bf16, {}}}", version, reduce),
              fmt::format("{}, accumulate: {}", kFsdp, accumulate), 65536);
        };
        const PointResult one = step(1);
        const PointResult three = step(3);
        const Duration reduction =
            (busy(one, CollectiveKind::kReduceScatter) + busy(one, CollectiveKind::kAllReduce)) / 8;
        CHECK(three.run.exposed_communication < one.run.exposed_communication + 3 * 3 * reduction);
      }
    }
  }

  TEST_CASE("gathers of smaller groups do not wait for reductions over all ranks") {
    const Widths w(9, 8192);
    const auto step = [&](const char* prefetch) {
      return simulated(w, 8,
                       fmt::format("fsdp: {{param_dtype: bf16, reduce_dtype: fp32, "
                                   "reshard_after_forward: 2, prefetch: {}}}",
                                   prefetch),
                       kFsdp, 65536);
    };
    const PointResult none = step("none");
    const PointResult pre = step("pre");
    const Duration reduction = busy(pre, CollectiveKind::kReduceScatter) / 8;
    CHECK(none.run.step - pre.run.step < reduction);
  }

  TEST_CASE("ZeRO gathers as many units ahead as its bucket and its limit have room for") {
    constexpr std::int64_t kWidth = 512;
    constexpr std::int64_t kUnit = kWidth * kWidth + kWidth;
    const Widths w(9, kWidth);
    // Returns the peak of backward in sizes of a unit, two bytes for each element.
    const auto units = [&](std::int64_t bucket, std::int64_t most) {
      const PointResult point =
          simulated(w, 4,
                    fmt::format("zero: {{stage: 3, persistent_below: 0, max_reuse_distance: 0, "
                                "reduce_bucket: 10, prefetch_bucket: {}, live_parameters: {}}}",
                                bucket, most),
                    kMixed);
      const Peak& peak = point.run.phase_live[static_cast<std::size_t>(Phase::kBackward)];
      return static_cast<double>(peak.bytes.count) / (2.0 * kUnit);
    };
    const double one = units(1, 100 * kUnit);
    // The peak moves with what is ahead, and with it activations and gradients of two samples.
    const auto about = [](double value) { return doctest::Approx(value).epsilon(0.001); };
    CHECK(units(kUnit, 100 * kUnit) == about(one));
    // Two units with each use of one: the gathers run further ahead with every unit.
    CHECK(units(kUnit + 1, 100 * kUnit) > one + 1.5);
    for (const std::int64_t more : {1, 2, 3}) {
      CAPTURE(more);
      // The unit in use counts, and what has room for an element has it for the unit.
      CHECK(units(100 * kUnit, (more + 1) * kUnit) == about(one + static_cast<double>(more) - 1));
      CHECK(units(100 * kUnit, (more + 1) * kUnit + 1) == about(one + static_cast<double>(more)));
    }
  }
}

}  // namespace
}  // namespace tidemark::gathered_ahead_test
