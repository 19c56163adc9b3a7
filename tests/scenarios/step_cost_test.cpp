// The host's clock, where the time of a step goes, and what it costs.
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "scenarios/results/result_document.hpp"
#include "scenarios/studies/search/search.hpp"
#include "scenarios/studies/simulate_points.hpp"
#include "tests/scenarios/scenario_files.hpp"

namespace tidemark::step_cost_test {
namespace {

using Json = nlohmann::ordered_json;

PointResult simulated(const std::string& hardware, const std::string& training,
                      const std::string& more = "") {
  const std::string text = "{model: {preset: gpt2, layers: 2}, hardware: {gpu: a100-sxm-80gb" +
                           hardware + "}, training: {sequence: 128" + training + "}" + more + "}";
  return simulate_points(parse_document(text, "s.yaml"), environment(), 1,
                         {.smallest_capacity = false})
      .front();
}

Json document_of(const PointResult& point) {
  return result_document(std::span(&point, 1)).at("points").at(0);
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("CUDA graphs leave the host one launch for each part of a step") {
    const PointResult eager = simulated("", "");
    const PointResult graphs = simulated("", ", host: cuda_graphs");
    CHECK(eager.run.host_bound > eager.run.step / 3);
    CHECK(graphs.run.step < eager.run.step - eager.run.host_bound);
    // Forward, backward and optimizer at 25 us each, of which the first is not hidden.
    CHECK(graphs.run.host_bound >= Duration(25'000));
    CHECK(graphs.run.host_bound <= Duration(3 * 25'000));
    // Memory is the same: the pool of a captured graph is an option of the allocator.
    CHECK(graphs.run.reserved.bytes == eager.run.reserved.bytes);
    // A host that takes no time is the same but for the gaps between kernels.
    const PointResult fast =
        simulated(", host: {dispatch: 0us, launch: 0us}, launch: {kernel: 1.32us}", "");
    CHECK(fast.run.step < graphs.run.step);
    CHECK(graphs.run.step - fast.run.step <= Duration(3 * 25'000));
  }

  TEST_CASE("a dynamic loss scale cuts the graph where the host waits for it") {
    const std::string scaled = ", precision: fp16_autocast, loss_scale: dynamic";
    const PointResult with = simulated("", scaled + ", host: cuda_graphs");
    const PointResult without = simulated("", ", precision: fp16_autocast, host: cuda_graphs");
    CHECK(with.run.host_bound > without.run.host_bound);
  }

  TEST_CASE("CUDA graphs need a framework that has them") {
    CHECK(refusal_with("training: {host: cuda_graphs, framework: torch-1.9-cuda}\n")
              .find("torch-1.9-cuda has no CUDA graphs, which came with PyTorch 1.10") !=
          std::string::npos);
    CHECK(refusal_with("training: {host: graphs}\n").find("eager, cuda_graphs") !=
          std::string::npos);
  }

  TEST_CASE("the breakdown of the time adds up to the step") {
    const Json time = document_of(simulated("", ", micro_batch: 8", ""))["time"];
    const Json& breakdown = time["breakdown"];
    double bound = 0;
    for (const auto& [name, seconds] : breakdown["bound"].items())
      bound += seconds.get<double>();
    CHECK(bound + breakdown["waits"].get<double>() == doctest::Approx(time["step"].get<double>()));
    double classes = 0;
    std::int64_t bytes = 0;
    for (const Json& entry : breakdown["classes"]) {
      classes += entry["seconds"].get<double>();
      bytes += entry["bytes"].get<std::int64_t>();
      CHECK(entry["kernels"].get<int>() > 0);
    }
    CHECK(classes == doctest::Approx(bound));
    CHECK(bytes == breakdown["bytes"].get<std::int64_t>());
    // Large products wait for arithmetic, elementwise kernels for memory.
    CHECK(breakdown["classes"][0]["seconds"] >= breakdown["classes"][1]["seconds"]);
  }

  TEST_CASE("recomputation counts for the utilization of the hardware, not of the model") {
    const PointResult plain = simulated("", ", micro_batch: 8");
    CHECK(plain.hardware_flops_utilization ==
          doctest::Approx(plain.model_flops_utilization).epsilon(1e-9));
    const PointResult again =
        simulated("", ", micro_batch: 8", ", policies: [checkpoint_every: {period: 1}]");
    CHECK(again.hardware_flops_utilization > 1.05 * again.model_flops_utilization);
  }

  TEST_CASE("a step costs the time, energy and price of its devices") {
    const PointResult one = simulated(", price: 3.6", "");
    const double seconds = std::chrono::duration<double>(one.run.step).count();
    CHECK(one.cost.device_hours == doctest::Approx(seconds / 3600));
    // 3.6 an hour are a thousandth a second.
    CHECK(*one.cost.price == doctest::Approx(seconds / 1000));
    // 400 W all the time where the idle power is not known, and less where it is.
    CHECK(*one.cost.joules == doctest::Approx(400 * seconds));
    const PointResult idle = simulated(", power: {watts: 400, idle: 100}", "");
    CHECK(*idle.cost.joules < 400 * seconds);
    CHECK(*idle.cost.joules > 100 * seconds);
    const PointResult four = simulated(", price: 3.6, count: 4", "");
    CHECK(four.cost.device_hours ==
          doctest::Approx(4 * std::chrono::duration<double>(four.run.step).count() / 3600));
    const Json cost = document_of(simulated("", ""))["cost"];
    CHECK(cost["price"].is_null());
    CHECK(cost["joules"].is_number());
    CHECK(refusal("model: gpt2\nhardware: {gpu: h100, power: {watts: 5, idle: 6}}\n")
              .find("draws no more while it is idle") != std::string::npos);
  }

  TEST_CASE("a search finds the cheapest device, not the fastest") {
    const std::string text =
        "{model: {preset: gpt2, layers: 2}, training: {sequence: 128, micro_batch: 16}, sweep: "
        "{matrix: {hardware: [{gpu: h100-sxm-80gb, price: 100}, {gpu: a100-sxm-80gb, price: 1}]}}, "
        "goal: {minimize: cost}, hardware: {gpu: a100-sxm-80gb, price: 1}}";
    const SearchResult found = search(parse_document(text, "s.yaml"), environment(), 1,
                                      {.simulation = {}, .every_point = true});
    REQUIRE(found.ranking.size() == 2);
    CHECK(found.points[found.ranking.front()].result.overrides[0].value.find("gpu")->scalar ==
          "a100-sxm-80gb");
    CHECK(refusal("{model: gpt2, hardware: h100-sxm-80gb, goal: {minimize: cost}}")
              .find("a cost needs hardware.price") != std::string::npos);
  }
}

}  // namespace tidemark::step_cost_test
