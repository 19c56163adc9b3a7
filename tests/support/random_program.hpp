// Step programs of random graphs under random policies, for property tests.
#pragma once

#include <cstdint>
#include <memory>
#include <variant>
#include <vector>

#include "policies/plan/policy.hpp"
#include "policies/recompute/entries.hpp"
#include "policies/residency/checkpoint.hpp"
#include "sim/engine/engine.hpp"
#include "sim/memory/ideal_allocator.hpp"
#include "sim/program/lower.hpp"
#include "sim/step/planned_step.hpp"
#include "tests/support/random_training_graph.hpp"

namespace tidemark::test {

struct Lowered {
  TrainingGraph graph;
  ProgramOrder plain;
  ProgramOrder order;
  Liveness live;
  StepProgram program;
  std::int64_t offloads = 0;
};

inline CostTable fixed_costs(const TrainingGraph& graph) {
  CostTable costs;
  for (const Operator& op : graph.operators) {
    costs.device.push_back(op.work.fixed);
    costs.dispatch.push_back(Duration(7));
  }
  costs.copy_out = {.ns_per_byte_alone = 0.4, .ns_per_byte_duplex = 0.7, .latency = Duration(20)};
  costs.copy_in = {.ns_per_byte_alone = 0.5, .ns_per_byte_duplex = 0.9, .latency = Duration(20)};
  costs.copy_dispatch = Duration(3);
  costs.tax_copy_out = 0.01;
  return costs;
}

inline void decide_random_offloads(Rng& rng, const Lowered& l, ResidencyPlan& plan) {
  for (GapId id : ids_of(l.live.gaps)) {
    const Gap& gap = l.live.gaps[id];
    if (!gap.open() || l.graph.storages[gap.storage].persistent || pick(rng, 0, 2) != 0) continue;
    const int first = static_cast<int>(gap.release.value) + 1;
    const int to = static_cast<int>(gap.to.value);
    if (first >= to) continue;
    const int fetch = pick(rng, first, to);
    Position release;
    if (pick(rng, 0, 1) == 0)
      release = Position(static_cast<std::uint32_t>(pick(rng, first, fetch)));
    plan.decide(id, Offload{.fetch_at = Position(static_cast<std::uint32_t>(fetch)),
                            .release_at = release});
  }
}

// A random graph under a random stack of checkpointing, reversal and offloading.
inline Lowered random_program(Rng& rng) {
  Lowered l;
  l.graph = random_training_graph(rng, {.blocks = pick(rng, 1, 6),
                                        .operators_per_block = pick(rng, 1, 5),
                                        .in_place = pick(rng, 0, 1) == 0});
  l.graph.micro_batches = 1;
  l.plain = program_order(l.graph, pick(rng, 1, 3));
  const CostTable costs = fixed_costs(l.graph);
  const DeviceProfile device{};
  Liveness live = analyze_liveness(l.graph, l.plain);
  l.order = l.plain;
  const int kind = pick(rng, 0, 2);
  if (kind == 1) {
    const AnyPolicy revolve = revolve_entry().decode(Decoder(), {});
    PolicyOutcome ignored;
    l.order = std::get<std::unique_ptr<SequencePolicy>>(revolve)->order(
        {l.graph, l.plain, live, costs.device, device}, ignored);
    live = analyze_liveness(l.graph, l.order);
  } else if (kind == 2) {
    ResidencyPlan plan(live);
    plan.begin_policy(0, "checkpoint");
    const PolicyContext context{l.graph, l.plain, live, costs.device, device};
    for (const BlockRegion& segment : block_segments(context, pick(rng, 1, 3))) {
      if (pick(rng, 0, 3) > 0) recompute_segment(context, segment, plan);
    }
    std::vector<PassTime> untimed;
    l.order = insert_and_carry({l.graph, l.plain, live, plan}, untimed)->step.order;
  }
  l.live = analyze_liveness(l.graph, l.order);
  ResidencyPlan plan(l.live);
  plan.begin_policy(0, "offload");
  decide_random_offloads(rng, l, plan);
  l.offloads = plan.outcomes()[0].decided;
  l.program = lower(l.graph, l.order, l.live, plan.decisions());
  return l;
}

inline RunResult run_ideal(const Lowered& l, std::int64_t capacity,
                           EvictionPolicy* eviction = nullptr, bool check_contents = false) {
  IdealAllocator allocator{Bytes(capacity)};
  allocator.reserve(l.program.allocations.size());
  Scratch scratch;
  scratch.prepare(l.program, true);
  return run(l.program, fixed_costs(l.graph), allocator, scratch,
             {.host_capacity = kGiB,
              .eviction = eviction,
              .check_contents = check_contents,
              .record_events = true});
}

}  // namespace tidemark::test
