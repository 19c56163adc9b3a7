// Policies that solve for a budget, where the scenario gives none.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "policies/residency/memory_curve.hpp"
#include "scenarios/read/scenario.hpp"
#include "scenarios/studies/compare.hpp"
#include "sim/step/compile.hpp"
#include "sim/step/run_compiled.hpp"
#include "tests/scenarios/scenario_files.hpp"

namespace tidemark::default_budget_test {
namespace {

Scenario scenario_of(const std::string& policy, const std::string& allocator, int ranks) {
  return decode(fmt::format(
      "{{model: {{preset: gpt, layers: 2, width: 64, heads: 4, vocab: 128, sequence: 32}}, "
      "hardware: {{gpu: h100-sxm-80gb, count: {}}}, allocator: {}, "
      "training: {{sequence: 32}}, policies: [{}]}}",
      ranks, allocator, policy));
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("without a budget a plan may use what the allocator has on each rank") {
    for (const int ranks : {1, 8}) {
      for (const std::string allocator : {"torch", "ideal"}) {
        CAPTURE(ranks);
        CAPTURE(allocator);
        const Scenario scenario = scenario_of("chen_sqrt", allocator, ranks);
        const FrameworkProfile& framework = scenario.device.framework;
        REQUIRE(framework.context.count > 0);
        REQUIRE(framework.communication_buffers.count > 0);
        std::int64_t beside = 0;  // the ideal allocator has no overhead
        if (allocator == "torch") {
          beside = framework.context.count;
          if (ranks > 1) beside += framework.communication_buffers.count;
        }
        const Compiled compiled = compile(scenario, build_training(scenario));
        REQUIRE(compiled.policies.at(0).plan.has_value());
        CHECK(compiled.policies.at(0).plan->budget.count ==
              scenario.device.hbm.capacity.count - beside);
      }
    }
  }

  TEST_CASE("a share of the peak is refused as a policy's budget, and compare takes it") {
    const std::string model =
        "model: {preset: gpt, layers: 2, width: 64, heads: 4, vocab: 128, sequence: 32}\n"
        "hardware: h100-sxm-80gb\ntraining: {sequence: 32}\n";
    int refused = 0;
    for (const PolicyEntry& entry : environment().policies.entries()) {
      const std::string text = fmt::format("policies: [{}: {{budget: 60%}}]\n", entry.name);
      const std::string error = error_of([&] { static_cast<void>(decode(model + text)); });
      CAPTURE(error);
      const std::string place = fmt::format("policies.{}.budget: ", entry.name);
      const std::size_t found = error.find(place);
      CHECK(error != "accepted");
      if (found == std::string::npos) continue;  // it lacks a key that it requires
      const std::string problem = error.substr(found + place.size());
      if (problem.starts_with("unknown key")) continue;  // it has no budget
      CHECK(problem ==
            "expected a size such as 40GiB, found '60%': a share of the peak without policies is "
            "for compare, which simulates that step, too: leave the budget out here and write "
            "compare: {policies: [...], budgets: [60%]}");
      ++refused;
    }
    CHECK(refused >= 15);
    const Value document =
        parse_document(model + "compare: {policies: [[belady]], budgets: [60%]}\n", "s.yaml");
    const std::vector<CompareSpec::Budget> budgets =
        decode_compare(document, environment()).budgets;
    REQUIRE(budgets.size() == 1);
    CHECK(budgets.front().share == 0.6);
  }

  TEST_CASE("the room for what is offloaded ends where the context and NCCL's buffers begin") {
    const TrainingGraph graph;
    const ProgramOrder order;
    const Liveness live;
    const IdVector<OperatorId, Duration> durations;
    DeviceProfile device{};
    device.hbm.capacity = Bytes(1000);
    PolicyContext context{graph, order, live, durations, device};
    CHECK(device_budget(context) == Bytes(1000));
    context.process_overhead = Bytes(300);
    CHECK(device_budget(context) == Bytes(700));
    context.process_overhead = Bytes(1300);  // a context larger than the device leaves nothing
    CHECK(device_budget(context) == Bytes(0));
  }
}

}  // namespace tidemark::default_budget_test
