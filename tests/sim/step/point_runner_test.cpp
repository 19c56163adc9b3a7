// One step is simulated once, however many reports want it.
#include "sim/step/point_runner.hpp"

#include <algorithm>
#include <memory>

#include <doctest/doctest.h>

#include "scenarios/read/environment.hpp"
#include "scenarios/read/scenario.hpp"

namespace tidemark::point_runner_test {

namespace {

// Keeps the order and counts its calls: one for every program that is compiled.
class CountingOrder final : public SequencePolicy {
 public:
  explicit CountingOrder(int& asked) : asked_(asked) {}
  [[nodiscard]] std::string_view name() const override { return "counting"; }
  [[nodiscard]] ProgramOrder order(const PolicyContext& context,
                                   PolicyOutcome& /*outcome*/) const override {
    ++asked_;
    return context.order;
  }

 private:
  int& asked_;
};

Scenario small_gpt(int& asked) {
  const Value document = parse_document(
      "{model: {preset: gpt, layers: 2, width: 64, heads: 4, vocab: 512, sequence: 32}, "
      "hardware: a100-sxm-80gb, training: {micro_batch: 2, sequence: 32}}",
      "test.yaml");
  Scenario scenario = decode_scenario(document, default_environment());
  scenario.policies.emplace_back(std::make_unique<CountingOrder>(asked));
  scenario.policy_names.emplace_back("counting");
  return scenario;
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("a sink receives the run whose figures are returned, compiled once") {
    int asked = 0;
    const Scenario scenario = small_gpt(asked);
    PointRunner runner(scenario);
    int received = 0;
    PointDetail detail;
    const PointResult point =
        runner.run({.smallest_capacity = false}, {}, [&](const PointResult& told, PointDetail run) {
          ++received;
          CHECK(told.run.step.count() > 0);
          detail = std::move(run);
        });
    CHECK(asked == 1);
    CHECK(runner.runs() == 1);
    CHECK(received == 1);
    CHECK(detail.model == runner.model());
    // The timeline is that of the figures: its highest point is the peak.
    std::int64_t highest = 0;
    for (const TimelinePoint& at : detail.timeline.points) {
      if (at.time >= detail.timeline.last_step_begin) highest = std::max(highest, at.live.count);
    }
    CHECK(highest == point.run.live.bytes.count);
    CHECK(detail.timeline.end >= point.run.step);
  }

  TEST_CASE("a sink changes no figure") {
    int asked = 0;
    const Scenario scenario = small_gpt(asked);
    PointRunner runner(scenario);
    const PointResult plain = runner.run({});
    const PointResult watched = runner.run({}, {}, [](const PointResult&, const PointDetail&) {});
    CHECK(asked == 2);
    CHECK(runner.runs() == 2);
    CHECK(plain.run.step == watched.run.step);
    CHECK(plain.device_used() == watched.device_used());
    CHECK(plain.smallest_capacity == watched.smallest_capacity);
  }

  TEST_CASE("device used is what the process and the allocator take, by hand") {
    PointResult point;
    point.capacity = Bytes(1000);
    point.context = Bytes(100);
    point.run.reserved.bytes.count = 250;
    point.parameters = Bytes(7);
    point.gradients = Bytes(20);
    point.optimizer_state = Bytes(300);
    CHECK(point.device_used() == Bytes(350));
    CHECK(point.device_needed() == Bytes(350));
    CHECK(point.usable() == Bytes(900));
    CHECK(point.model_bytes() == Bytes(327));
    point.smallest_capacity.count = 300;
    CHECK(point.device_needed() == Bytes(350));
    CHECK(point.device_that_does() == Bytes(300));
    // The regions of bfc double when nothing limits them.
    point.allocator.grows_by_doubling = true;
    point.status = PointStatus::kOutOfMemory;
    CHECK(point.device_needed() == Bytes(300));
  }
}

}  // namespace tidemark::point_runner_test
