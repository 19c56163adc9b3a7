#include "policies/data/load.hpp"

#include <algorithm>
#include <random>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "graph/core/document.hpp"
#include "scenarios/studies/simulate_points.hpp"
#include "tests/scenarios/scenario_files.hpp"

namespace tidemark {
namespace load_test {
namespace {

constexpr Bytes kFile(100);

// Three weights of 40, 50 and 30 bytes, of which the second is quantised to 10.
const std::vector<LoadedWeight> kWeights{{Bytes(40), Bytes(40), Bytes(40), false},
                                         {Bytes(50), Bytes(50), Bytes(10), true},
                                         {Bytes(30), Bytes(30), Bytes(30), false}};

LoadFigures of(LoadSpec spec, std::int64_t processes = 1) {
  if (spec.shard.count == 0) spec.shard = kFile;
  return load_figures(spec, kWeights, processes);
}

PointResult run(const std::string& rest) {
  const PointResult point =
      simulate_points(parse_document("{model: llama-2-7b, " + rest + "}", "s.yaml"), environment(),
                      1, {.smallest_capacity = false})
          .front();
  REQUIRE_MESSAGE(point.status != PointStatus::kError, point.error);
  return point;
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("a weight is on the device in full beside its codes while it is quantised") {
    const LoadFigures figures = of({});
    CHECK(figures.device_peak.count == 40 + 50 + 10);
    CHECK(figures.device_after.count == 80);
  }

  TEST_CASE("files are filled in order, and pickled ones are read whole") {
    // Files of 40 + 50 and 30 bytes.
    CHECK(of({}).host_peak.count == 50);
    CHECK(of({.pickle = true}).host_peak.count == 90);
    CHECK(of({.pickle = true, .shard = Bytes(45)}).host_peak.count == 50);
    CHECK(of({.pickle = true, .low_cpu_mem_usage = false}).host_peak.count == 120 + 90);
    CHECK(of({.pickle = true, .through_host = true}).host_peak.count == 120);
    CHECK(of({.pickle = true, .through_host = true}, 8).host_peak.count == 8 * 120);
    CHECK(of({.through_host = true, .every_process = false}, 8).host_peak.count == 120);
  }

  TEST_CASE("what is loaded is what the step finds, less the adapters") {
    const PointResult point =
        run("hardware: h100-sxm-80gb, training: {precision: bf16, sequence: 512, load: {}}, "
            "policies: [lora: {rank: 16, targets: all-linear, base: nf4}]");
    REQUIRE(point.load.has_value());
    const std::int64_t adapters = 4 * point.trainable_parameter_count.count;
    // Codes and scales of each weight are rounded down.
    const std::int64_t rounding =
        point.parameters.count - adapters - point.load->device_after.count;
    CHECK(rounding >= 0);
    CHECK(rounding < 7 * 32);
    // The largest quantised weight has 11,008 x 4,096 elements of two bytes; the head, which comes
    // last and stays as it is, has more.
    CHECK(point.load->device_peak == point.load->device_after);
    CHECK(point.load->host_peak.count == 2LL * 32'000 * 4'096);
  }

  TEST_CASE("a step that fits does not fit where its weights cannot be loaded") {
    // Eight processes that each make the model with random weights first.
    const PointResult point =
        run("hardware: {gpu: h100-sxm-80gb, count: 8, host: {memory: 100GiB}}, training: "
            "{precision: bf16, optimizer: sgd, sequence: 128, load: {low_cpu_mem_usage: false}}");
    CHECK(point.status == PointStatus::kOutOfMemory);
    REQUIRE(point.failure.has_value());
    CHECK(point.failure->reason.find("8 processes that load the weights") != std::string::npos);
    CHECK(run("hardware: {gpu: h100-sxm-80gb, count: 8, host: {memory: 100GiB}}, training: "
              "{precision: bf16, optimizer: sgd, sequence: 128, load: {low_cpu_mem_usage: false, "
              "processes: first}}")
              .status == PointStatus::kFits);
  }

  TEST_CASE("a device_map needs low_cpu_mem_usage, as in transformers") {
    const std::string error = error_of([] {
      static_cast<void>(
          run("hardware: h100-sxm-80gb, training: {load: {low_cpu_mem_usage: false, "
              "device_map: cuda}}"));
    });
    CHECK(error.find("device_map") != std::string::npos);
  }
}

TEST_SUITE("property") {
  // Weight by weight and byte by byte, as from_pretrained walks the files.
  TEST_CASE("peaks of loading are those of the walk over files and weights") {
    std::mt19937 random(5);
    const auto number = [&](int low, int high) {
      return std::uniform_int_distribution<>(low, high)(random);
    };
    for (int round = 0; round < 500; ++round) {
      LoadSpec spec{.pickle = number(0, 1) == 1,
                    .shard = Bytes(number(10, 200)),
                    .low_cpu_mem_usage = number(0, 1) == 1};
      spec.through_host = !spec.low_cpu_mem_usage || number(0, 1) == 1;
      std::vector<LoadedWeight> weights;
      const int count = number(1, 12);
      for (int i = 0; i < count; ++i) {
        const Bytes size(number(1, 90));
        const bool codes = number(0, 2) == 0;
        weights.push_back({size, size, codes ? Bytes(size.count / 4) : size, codes});
      }
      std::int64_t made = 0, host = 0, device = 0, device_peak = 0, file = 0;
      for (const LoadedWeight& weight : weights)
        made += spec.low_cpu_mem_usage ? 0 : weight.model.count;
      for (std::size_t i = 0; i < weights.size();) {
        std::size_t end = i;
        file = 0;
        while (end < weights.size() &&
               (end == i || file + weights[end].file.count <= spec.shard.count))
          file += weights[end++].file.count;
        // All tensors of a pickled file are there at once; those that become weights stay.
        for (; i < end; ++i) {
          const bool keeps = spec.low_cpu_mem_usage && spec.through_host;
          if (keeps) made += weights[i].model.count;
          const std::int64_t open = spec.pickle ? file : weights[i].file.count;
          host = std::max(host, keeps ? made : made + open);
          const std::int64_t beside = weights[i].is_quantised ? weights[i].model.count : 0;
          device_peak = std::max(device_peak, device + beside + weights[i].kept.count);
          device += weights[i].kept.count;
        }
      }
      const LoadFigures figures = load_figures(spec, weights, 1);
      CHECK(figures.device_after.count == device);
      CHECK(figures.device_peak.count == device_peak);
      CHECK(figures.host_peak.count == host);
    }
  }
}

}  // namespace load_test
}  // namespace tidemark
