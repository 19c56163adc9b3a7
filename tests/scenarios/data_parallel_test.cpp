// Several data ranks, from the text of a scenario to its figures.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "scenarios/results/result_document.hpp"
#include "scenarios/studies/simulate_points.hpp"
#include "tests/scenarios/scenario_files.hpp"

namespace tidemark::data_parallel_scenarios_test {
namespace {

PointResult simulated(const std::string& hardware, const std::string& more) {
  // A host fast enough that so few tokens do not wait for it.
  const std::string text = fmt::format(
      "{{model: gpt2, hardware: {{gpu: h100-sxm-80gb, host: {{dispatch: 10us}}{}}}, training: "
      "{{sequence: 64, precision: "
      "fp32{}}}",
      hardware, more);
  return simulate_points(parse_document(text, "s.yaml"), environment(), 1,
                         {.smallest_capacity = false})
      .front();
}

}  // namespace

TEST_SUITE("golden") {
  TEST_CASE("GPT-2's gradients are reduced in 13 buckets") {
    // ../shared/cases/parallel/ddp-buckets.csv: 497,759,232 bytes from the second iteration on.
    const PointResult eight = simulated(", count: 8", "}");
    REQUIRE(eight.communication.size() == 1);
    CHECK(eight.communication[0].count == 13);
    CHECK(eight.communication[0].bytes.count == 497'759'232);
    CHECK(eight.mesh.size(MeshDimension::kData) == 8);
    // With 64 tokens the host is still issuing the copies back when NVLink has done the last
    // bucket.
    CHECK(eight.communication[0].busy > Duration(0));
    CHECK(eight.run.exposed_communication < eight.communication[0].busy);
    const auto document = result_document(std::span(&eight, 1));
    const auto& point = document["points"][0];
    CHECK(point["mesh"]["data"] == 8);
    CHECK(point["communication"][0]["kind"] == "all_reduce");
    CHECK(point["communication"][0]["bytes"] == 497'759'232);
    CHECK(point["memory"]["peak"]["by_role"]["gradient_bucket"] == 497'759'232);
  }
}

TEST_SUITE("golden") {
  TEST_CASE("the first iteration reduces all gradients at once, and learns their order") {
    // ../shared/cases/parallel/ddp-buckets.csv: one bucket in iteration 1 and 13 from then on;
    // find_unused 14 in all iterations, the first launched of 9,216 bytes.
    struct Case {
      const char* options;
      std::int64_t first;
      std::int64_t later;
    };
    for (const Case& c : {Case{"", 1, 13}, Case{"gradient_as_bucket_view: true", 1, 13},
                          Case{"find_unused: true", 14, 14},
                          Case{"find_unused: true, static_graph: true", 1, 13}}) {
      CAPTURE(c.options);
      for (const char* accumulate : {"", ", accumulate: 3"}) {
        CAPTURE(accumulate);
        const auto reduced = [&](int steps) {
          const PointResult point = simulated(
              ", count: 8", fmt::format("{}, steps: {}}}, policies: [data_parallel: {{{}}}]",
                                        accumulate, steps, c.options));
          REQUIRE_MESSAGE(point.status == PointStatus::kFits, point.error);
          REQUIRE(point.communication.size() == 1);
          CHECK(point.communication[0].bytes.count == 497'759'232);
          return point;
        };
        const PointResult first = reduced(1);
        const PointResult later = reduced(2);
        CHECK(first.communication[0].count == c.first);
        CHECK(later.communication[0].count == c.later);
        // The buckets are the same memory, one after the other.
        const auto buckets = static_cast<std::size_t>(Role::kGradientBucket);
        CHECK(first.peak.by_role[buckets] >= Bytes(497'759'232));
        CHECK(first.peak.by_role[buckets] == later.peak.by_role[buckets]);
        // Nothing of backward is left to hide what is reduced behind it, and copied back.
        if (c.first == 1 && std::string(c.options).find("view") == std::string::npos)
          CHECK(first.run.exposed_communication == first.communication[0].busy);
      }
    }
  }
}

TEST_SUITE("unit") {
  TEST_CASE("one rank is the plain run, whatever it says of data parallelism") {
    const PointResult plain = simulated("", "}");
    const PointResult one = simulated(", count: 1", "}, policies: [data_parallel: {bucket: 1MiB}]");
    CHECK(one.run.step == plain.run.step);
    CHECK(one.run.reserved.bytes == plain.run.reserved.bytes);
    CHECK(one.communication.empty());
    CHECK(plain.communication.empty());
    for (const char* version : {"1", "2"}) {
      const PointResult gathers = simulated(
          ", count: 1", fmt::format("}}, policies: [fsdp: {{version: {}, param_dtype: fp16, "
                                    "reduce_dtype: fp16}}]",
                                    version));
      CHECK(gathers.parameters == plain.parameters);
      CHECK(gathers.run.step == plain.run.step);
      CHECK(gathers.run.reserved.bytes == plain.run.reserved.bytes);
    }
  }

  TEST_CASE("several ranks take more time than one each and more memory, by their buckets") {
    const PointResult one = simulated("", "}");
    const PointResult two = simulated(", count: 2", "}");
    CHECK(two.run.step > one.run.step);
    CHECK(two.samples_per_second < 2 * one.samples_per_second);
    CHECK(two.run.live.bytes.count == one.run.live.bytes.count + 497'759'232);
    const PointResult view =
        simulated(", count: 2", "}, policies: [data_parallel: {gradient_as_bucket_view: true}]");
    CHECK(view.run.live.bytes < two.run.live.bytes);
    CHECK(view.gradients.count == 0);
  }

  TEST_CASE("what lies between the hosts decides how long they wait") {
    const PointResult fast = simulated(", count: 16, node: 8, network: infiniband-400", "}");
    const PointResult slow = simulated(", count: 16, node: 8, network: ethernet-100", "}");
    const PointResult own =
        simulated(", count: 16, node: 8, network: {bandwidth: 12.5GB/s, latency: 25us}", "}");
    const PointResult together = simulated(", count: 16, node: 16, network: ethernet-100", "}");
    CHECK(slow.run.exposed_communication > fast.run.exposed_communication);
    CHECK(own.run.step == slow.run.step);
    CHECK(together.run.exposed_communication < fast.run.exposed_communication);
  }

  TEST_CASE("an unknown network and a wrong figure are reported where they are") {
    CHECK(refusal("model: gpt2\nhardware: {gpu: h100-sxm-80gb, network: infiniband-40}\n")
              .find("hardware.network: unknown network 'infiniband-40'; did you mean "
                    "'infiniband-400'?") != std::string::npos);
    CHECK(refusal("model: gpt2\nhardware: {gpu: h100-sxm-80gb, network: {bandwidth: 5}}\n")
              .find("hardware.network.bandwidth") != std::string::npos);
    CHECK(refusal("model: gpt2\nhardware: {gpu: h100-sxm-80gb, node: 0}\n").find("hardware.node") !=
          std::string::npos);
  }
}

}  // namespace tidemark::data_parallel_scenarios_test
