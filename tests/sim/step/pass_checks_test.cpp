// Results of passes are broken on purpose: the checks find each fault and name the operator.
#include "sim/step/pass_checks.hpp"

#include <algorithm>
#include <limits>
#include <string>

#include <doctest/doctest.h>

#include "graph/core/errors.hpp"
#include "hwprofiles/cost_model.hpp"
#include "scenarios/read/environment.hpp"
#include "scenarios/read/scenario.hpp"
#include "sim/step/build_training.hpp"
#include "sim/step/compile.hpp"

namespace tidemark::pass_checks_test {

namespace {

// Two steps of two micro-batches of a small GPT, in the plain order.
struct Step {
  Scenario scenario;
  TrainedModel model;
  StepSchedule schedule;
  ProgramOrder order;
  Liveness live;
  CostTable costs;

  Step()
      : scenario(decode_scenario(
            parse_document("{version: 1, model: {preset: gpt, layers: 2, width: 64, heads: 4, "
                           "vocab: 512, sequence: 64}, hardware: a100-sxm-80gb, training: "
                           "{micro_batch: 2, sequence: 64, accumulate: 2}}",
                           "test.yaml"),
            default_environment())),
        model(build_training(scenario)),
        schedule(training_schedule(graph())),
        order(program_order(graph(), schedule, 2)),
        live(analyze_liveness(graph(), order)),
        costs(price(graph(), CostModel(scenario.device), scenario.mesh)) {}

  [[nodiscard]] const TrainingGraph& graph() const { return model.training; }
  [[nodiscard]] std::string name_at(Position p) const { return graph().describe(order.at[p].op); }
  // Returns the first position whose operator creates a storage that a later one reads.
  [[nodiscard]] Position first_creator() const {
    const auto creates = [&](const Occurrence& occurrence) {
      const auto touches = graph().touches_of(occurrence.op);
      return std::any_of(touches.begin(), touches.end(), [&](const Touch& touch) {
        return touch.access == Access::kCreate && !graph().storages[touch.storage].initial;
      });
    };
    return Position(static_cast<std::size_t>(
        std::find_if(order.at.begin(), order.at.end(), creates) - order.at.begin()));
  }
};

template <class F>
std::string fault_in(F&& check) {
  try {
    check();
  } catch (const InternalError& error) {
    return error.what();
  }
  return {};
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("the results of the passes themselves have no fault") {
    const Step step;
    CHECK_NOTHROW(check_scheduled(step.graph(), step.schedule, step.order));
    CHECK_NOTHROW(check_liveness(step.graph(), step.order, step.live));
    CHECK_NOTHROW(check_prices(step.graph(), step.costs));
  }

  TEST_CASE("an operator that occurs once too often or too seldom is found") {
    const Step step;
    const Position last(step.order.at.size() - 1);
    ProgramOrder more = step.order;
    more.at.push_back(more.at[last]);
    const std::string often = fault_in([&] { check_scheduled(step.graph(), step.schedule, more); });
    CHECK(has(often, step.name_at(last)));
    CHECK(has(often, "its schedule says"));
    ProgramOrder less = step.order;
    less.at.resize(less.at.size() - 1);
    const std::string seldom =
        fault_in([&] { check_scheduled(step.graph(), step.schedule, less); });
    CHECK(has(seldom, step.name_at(last)));
  }

  TEST_CASE("an operator that runs before what it reads exists is found") {
    const Step step;
    const Position creator = step.first_creator();
    ProgramOrder late = step.order;
    // The creator runs at the end of the order; all that read its result come before it.
    std::rotate(late.at.begin() + static_cast<std::ptrdiff_t>(creator.index()),
                late.at.begin() + static_cast<std::ptrdiff_t>(creator.index()) + 1, late.at.end());
    const Liveness live = analyze_liveness(step.graph(), late);
    const std::string fault = fault_in([&] { check_liveness(step.graph(), late, live); });
    CHECK(has(fault, "before any operator has created it"));
    CHECK(has(fault, "operator '"));
    CHECK_FALSE(has(fault, step.name_at(creator) + "' at"));
  }

  TEST_CASE("a micro-batch does not find the values of another that is in flight with it") {
    const Step step;
    const StepSchedule together = training_schedule(step.graph(), gpipe(2));
    const ProgramOrder order = program_order(step.graph(), together, 1);
    REQUIRE(order.in_flight == 2);
    CHECK_NOTHROW(check_scheduled(step.graph(), together, order));
    ProgramOrder mixed = order;
    const Position creator = step.first_creator();
    for (Occurrence& occurrence : mixed.at) {
      if (occurrence.op == step.order.at[creator].op) occurrence.instance = 0;
    }
    const Liveness live = analyze_liveness(step.graph(), mixed);
    CHECK(has(fault_in([&] { check_liveness(step.graph(), mixed, live); }),
              "before any operator has created it"));
  }

  TEST_CASE("a touch outside of its interval is found") {
    const Step step;
    const Position at = step.first_creator();
    const GapId gap = step.live.after(at, 0);
    const auto fault_after = [&](auto&& change) {
      Liveness broken = step.live;
      change(broken);
      return fault_in([&] { check_liveness(step.graph(), step.order, broken); });
    };
    const std::string none =
        fault_after([&](Liveness& live) { live.gap_after[live.first_touch[at]] = GapId(); });
    CHECK(has(none, "outside of every interval"));
    CHECK(has(none, step.name_at(at)));
    CHECK(has(fault_after([&](Liveness& live) { live.gaps[gap].from = Position(at.value + 1); }),
              "in an interval that begins elsewhere"));
    REQUIRE(at.value > 0);
    CHECK(has(fault_after([&](Liveness& live) { live.gaps[gap].release = Position(at.value - 1); }),
              "in an interval that is released before it begins"));
  }

  TEST_CASE("an interval that ends too early, or at no other touch, is found") {
    const Step step;
    const auto found =
        std::find_if(step.live.gaps.begin(), step.live.gaps.end(), [](const Gap& gap) {
          return gap.to.valid() && gap.to.value > gap.from.value + 1 && gap.from.value > 0;
        });
    REQUIRE(found != step.live.gaps.end());
    const GapId gap(static_cast<std::size_t>(found - step.live.gaps.begin()));
    Liveness broken = step.live;
    broken.gaps[gap].to = Position(found->from.value - 1);
    CHECK(has(fault_in([&] { check_liveness(step.graph(), step.order, broken); }),
              "in an interval that ends too early"));
    broken = step.live;
    broken.gaps[gap].release = found->from;
    broken.gaps[gap].to = Position(found->from.value + 1);
    const std::string fault = fault_in([&] { check_liveness(step.graph(), step.order, broken); });
    CHECK(has(fault, "behind an interval that ends elsewhere"));
    CHECK(has(fault, step.name_at(found->to)));
  }

  TEST_CASE("prices that are negative, missing or too large to add up are found") {
    const Step step;
    const OperatorId op(3U);
    const std::string name = step.graph().describe(op);
    const auto fault_after = [&](auto&& change) {
      CostTable broken = step.costs;
      change(broken);
      return fault_in([&] { check_prices(step.graph(), broken); });
    };
    CHECK(fault_after([&](CostTable& costs) { costs.device[op] = Duration(-5); }) ==
          "operator '" + name + "' has a negative time on the device: -5 ns");
    CHECK(fault_after([&](CostTable& costs) { costs.dispatch[op] = Duration(-1); }) ==
          "operator '" + name + "' has a negative time to dispatch: -1 ns");
    CHECK(has(fault_after([&](CostTable& costs) {
                costs.device[op] = Duration::max();
                costs.dispatch[op] = Duration(1);
              }),
              "the operators up to '" + name + "' take more nanoseconds than 63 bits hold"));
    CHECK(has(fault_after([&](CostTable& costs) { costs.device.resize(2); }),
              "have 2 prices on the device"));
    CHECK(has(fault_after([&](CostTable& costs) {
                costs.copy_in.ns_per_byte_alone = std::numeric_limits<double>::infinity();
              }),
              "the time of a copied byte is inf"));
  }

  TEST_CASE("times that cannot be counted are a mistake of the user's, fast or slow") {
    const auto error_of = [](const std::string& hardware) -> std::string {
      const Scenario scenario = decode_scenario(
          parse_document("{model: gpt2, hardware: {gpu: a100-sxm-80gb, " + hardware + "}}",
                         "s.yaml"),
          default_environment());
      try {
        static_cast<void>(compile(scenario, build_training(scenario)));
      } catch (const UserError& error) {
        return error.what();
      }
      return {};
    };
    for (const std::string hardware :
         {"hbm: {bandwidth: 1B/s}", "host: {launch: 100000h}", "host: {synchronize: 300000h}",
          "peaks: {bf16: 1FLOP/s}", "links: {h2d: {alone: 1B/s}}"}) {
      CAPTURE(hardware);
      CHECK(error_of(hardware).find("are its rates and times") != std::string::npos);
    }
    CHECK(error_of("hbm: {bandwidth: 1GB/s}").empty());
    CHECK(error_of("host: {launch: 1h}").empty());
  }
}

}  // namespace tidemark::pass_checks_test
