// Programs in which several micro-batches are in flight together.
#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "graph/analysis/schedule.hpp"
#include "policies/rewrite/accumulate.hpp"
#include "sim/program/lower.hpp"
#include "sim/program/verify.hpp"
#include "tests/support/random_program.hpp"

namespace tidemark::in_flight_test {

using tidemark::test::decide_random_offloads;
using tidemark::test::Lowered;
using tidemark::test::pick;
using tidemark::test::random_training_graph;
using tidemark::test::Rng;
using tidemark::test::run_ideal;

namespace {

// Micro-batches begin in order and end in any order.
std::vector<ScheduledPart> random_work(Rng& rng, int micro_batches) {
  std::vector<ScheduledPart> work;
  std::vector<std::uint16_t> in_flight;
  int next = 0;
  while (next < micro_batches || !in_flight.empty()) {
    const bool begins = next < micro_batches && (in_flight.empty() || pick(rng, 0, 1) == 0);
    if (begins) {
      work.push_back({PartKind::kForward, static_cast<std::uint16_t>(next)});
      in_flight.push_back(static_cast<std::uint16_t>(next++));
      continue;
    }
    const auto at = in_flight.begin() + pick(rng, 0, static_cast<int>(in_flight.size()) - 1);
    work.push_back({PartKind::kBackward, *at});
    in_flight.erase(at);
  }
  return work;
}

Lowered random_in_flight(Rng& rng) {
  Lowered l;
  l.graph = random_training_graph(rng, {.blocks = pick(rng, 1, 4),
                                        .operators_per_block = pick(rng, 1, 4),
                                        .in_place = pick(rng, 0, 1) == 0});
  const int micro_batches = pick(rng, 1, 6);
  if (pick(rng, 0, 1) == 0) {
    Accumulate(micro_batches, pick(rng, 0, 1) == 0 ? ZeroGrad::kNone : ZeroGrad::kZero)
        .apply(l.graph, {});
  }
  const StepSchedule schedule = training_schedule(l.graph, random_work(rng, micro_batches));
  l.plain = l.order = program_order(l.graph, schedule, pick(rng, 1, 3));
  Liveness live = analyze_liveness(l.graph, l.plain);
  if (pick(rng, 0, 1) == 0) {
    ResidencyPlan plan(live);
    plan.begin_policy(0, "checkpoint");
    const CostTable costs = test::fixed_costs(l.graph);
    const DeviceProfile device{};
    const PolicyContext context{l.graph, l.plain, live, costs.device, device};
    for (const BlockRegion& segment : block_segments(context, pick(rng, 1, 3))) {
      if (pick(rng, 0, 3) > 0) recompute_segment(context, segment, plan);
    }
    l.order = insert_recomputation(l.graph, l.plain, live, plan);
  }
  l.live = analyze_liveness(l.graph, l.order);
  ResidencyPlan plan(l.live);
  plan.begin_policy(0, "offload");
  decide_random_offloads(rng, l, plan);
  l.offloads = plan.outcomes()[0].decided;
  l.program = lower(l.graph, l.order, l.live, plan.decisions());
  return l;
}

// Returns the most copies of each storage that are allocated at a time.
int most_copies(const StepProgram& program, StorageId storage) {
  int now = 0;
  int most = 0;
  for (std::size_t i = 0; i < program.size(); ++i) {
    if (program.opcode[i] != Opcode::kAllocate && program.opcode[i] != Opcode::kFree) continue;
    if (program.allocations[AllocationId(program.subject[i])].storage != storage) continue;
    now += program.opcode[i] == Opcode::kAllocate ? 1 : -1;
    most = std::max(most, now);
  }
  return most;
}

}  // namespace

TEST_SUITE("property") {
  TEST_CASE("random graphs under random schedules verify and run") {
    Rng rng(20261122);
    std::int64_t offloads = 0;
    std::int64_t repeats = 0;
    int together = 0;
    for (int trial = 0; trial < 800; ++trial) {
      CAPTURE(trial);
      const Lowered l = random_in_flight(rng);
      const std::vector<std::string> problems = verify(l.graph, l.plain, l.order, l.program);
      REQUIRE_MESSAGE(problems.empty(), (problems.empty() ? std::string() : problems.front()));
      REQUIRE(run_ideal(l, kGiB.count).status == RunStatus::kCompleted);
      offloads += l.offloads;
      repeats += static_cast<std::int64_t>(l.order.at.size() - l.plain.at.size());
      together += l.plain.in_flight > 2 ? 1 : 0;
    }
    CHECK(offloads > 1000);  // the trials really have exercised policies and schedules
    CHECK(repeats > 1000);
    CHECK(together > 100);
  }

  TEST_CASE("a storage is there as often as its micro-batches are in flight, never longer") {
    Rng rng(20261123);
    for (int trial = 0; trial < 100; ++trial) {
      CAPTURE(trial);
      Lowered l;
      l.graph = random_training_graph(rng, {.blocks = 3, .operators_per_block = 3});
      const int micro_batches = pick(rng, 2, 6);
      const std::vector<ScheduledPart> work = random_work(rng, micro_batches);
      l.order = program_order(l.graph, training_schedule(l.graph, work), 2);
      l.live = analyze_liveness(l.graph, l.order);
      l.program = lower(l.graph, l.order, l.live, IdVector<GapId, Decision>(l.live.gaps.size()));
      for (StorageId s : ids_of(l.graph.storages)) {
        const Storage& storage = l.graph.storages[s];
        const int copies = most_copies(l.program, s);
        REQUIRE(copies <= (storage.persistent ? 1 : l.order.in_flight));
      }
      // The first operator saves it for its backward: it is live while its micro-batch is in
      // flight.
      const StorageId first =
          l.graph.touches_of(l.graph.part(PartKind::kForward)[0]).back().storage;
      CHECK(most_copies(l.program, first) >= 1);
    }
  }
}

TEST_SUITE("unit") {
  TEST_CASE("verify sees micro-batches in flight that share their values") {
    Rng rng(3);
    Lowered l;
    l.graph = random_training_graph(rng, {.blocks = 3, .operators_per_block = 3});
    l.plain = program_order(l.graph, training_schedule(l.graph, gpipe(2)), 1);
    l.order = l.plain;
    for (Occurrence& occurrence : l.order.at)
      occurrence.instance = 0;
    l.live = analyze_liveness(l.graph, l.order);
    const IdVector<GapId, Decision> keep(l.live.gaps.size());
    l.program = lower(l.graph, l.order, l.live, keep);
    CHECK_FALSE(verify(l.graph, l.plain, l.order, l.program).empty());
  }
}

}  // namespace tidemark::in_flight_test
