// Memory over true time where work of other streams or repetitions stretch the step.
#include "sim/result/timeline.hpp"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>

#include <doctest/doctest.h>

#include "sim/engine/eviction.hpp"
#include "tests/plots/traced_run.hpp"

namespace tidemark::timeline_test {

TEST_SUITE_BEGIN("property");

TEST_CASE("evicted allocations are recomputed one after another, not all at once") {
  const TracedRun run(
      ", training: {micro_batch: 8, sequence: 256, attention: math}, policies: [eviction: "
      "{heuristic: lru}]",
      "{gpu: a100-sxm-40gb, hbm: {capacity: 700MiB}}");
  REQUIRE(run.result.status == PointStatus::kFits);
  REQUIRE(run.result.run.restores > 20);
  const StepProgram& program = run.detail.compiled.program;
  const Scratch& scratch = run.detail.scratch;
  const std::vector<std::uint32_t> producer = producers(program);
  std::map<std::uint32_t, std::vector<TimelinePoint>> by_launch;
  for (const TimelinePoint& point : run.detail.timeline.points) {
    // Only points of allocations restored before a launch count, not those of the launch itself.
    std::uint32_t i = point.instruction;
    while (i < program.size() && program.opcode[i] != Opcode::kLaunch)
      ++i;
    if (i >= program.size() || scratch.restored[i] <= 0) continue;
    if (point.sign > 0 && producer[point.allocation.index()] != i) by_launch[i].push_back(point);
  }
  REQUIRE_FALSE(by_launch.empty());
  std::size_t most_times = 0;
  for (const auto& [launch, points] : by_launch) {
    const std::int64_t begin = scratch.started[launch];
    const std::int64_t end = begin + scratch.restored[launch];
    std::set<std::int64_t> times;
    const TimelinePoint* last_back = nullptr;
    for (const TimelinePoint& point : points) {
      CHECK(point.time.count() >= begin);
      CHECK(point.time.count() <= end);
      if (point.sign <= 0) continue;
      times.insert(point.time.count());
      last_back = &point;
    }
    REQUIRE(last_back != nullptr);
    most_times = std::max(most_times, times.size());
    // The last recomputed value is computed until the launch itself begins.
    const OperatorId op(program.subject[producer[last_back->allocation.index()]]);
    const std::int64_t computed = run.detail.compiled.costs.device[op].count();
    CHECK(std::abs(last_back->time.count() + computed - end) <= 1);
  }
  CHECK(most_times > 3);
}

TEST_CASE("a step lasts until the optimizer on the host is done") {
  const TracedRun run(
      ", training: {micro_batch: 1, sequence: 256, precision: fp16_mixed}, policies: "
      "[offload_optimizer: {}]");
  REQUIRE(run.result.status == PointStatus::kFits);
  REQUIRE(run.result.run.exposed[static_cast<std::size_t>(Stream::kHostWorker)].count() > 0);
  const Scratch& scratch = run.detail.scratch;
  const MemoryTimeline& timeline = run.detail.timeline;
  CHECK(timeline.end.count() ==
        *std::max_element(scratch.finished.begin(), scratch.finished.end()));
  CHECK(timeline.end - timeline.last_step_begin >= run.result.run.step * 0.99);
}

TEST_SUITE_END();

}  // namespace tidemark::timeline_test
