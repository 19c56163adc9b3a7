// Policies that solve for a budget, where the scenario gives none.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "policies/residency/memory_curve.hpp"
#include "scenarios/read/scenario.hpp"
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
