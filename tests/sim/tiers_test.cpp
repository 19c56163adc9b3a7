// Homes and executors: values that live off the device, operators that run on the host.
#include <doctest/doctest.h>

#include "policies/plan/policy.hpp"
#include "sim/engine/engine.hpp"
#include "sim/memory/ideal_allocator.hpp"
#include "sim/program/lower.hpp"
#include "sim/program/verify.hpp"
#include "tests/support/random_training_graph.hpp"

namespace tidemark::tiers_test {

using tidemark::test::pick;
using tidemark::test::Rng;

namespace {

struct Placed {
  TrainingGraph graph;
  ProgramOrder order;
  Liveness live;
  StepProgram program;
  int off_device = 0;  // storages whose home is not the device
  int on_host = 0;     // operators
};

Tier random_home(Rng& rng) {
  return static_cast<Tier>(pick(rng, 0, 2));
}

// A random graph whose parameters and gradients live anywhere and whose updates run anywhere, with
// random decisions about random gaps.
Placed random_placement(Rng& rng) {
  Placed l;
  l.graph = test::random_training_graph(rng, {.blocks = pick(rng, 1, 5),
                                              .operators_per_block = pick(rng, 1, 4),
                                              .in_place = pick(rng, 0, 1) == 0});
  for (Storage& storage : l.graph.storages) {
    const bool persistent = storage.role == Role::kParameter || storage.role == Role::kGradient;
    if (!persistent || pick(rng, 0, 2) == 0) continue;
    storage.home = random_home(rng);
    l.off_device += storage.home == Tier::kDevice ? 0 : 1;
  }
  for (OperatorId id : l.graph.part(PartKind::kOptimizer)) {
    if (pick(rng, 0, 1) == 0) continue;
    l.graph.operators[id].executor = Executor::kHost;
    ++l.on_host;
  }
  l.order = program_order(l.graph, pick(rng, 1, 3));
  l.live = analyze_liveness(l.graph, l.order);
  ResidencyPlan plan(l.live);
  plan.begin_policy(0, "random");
  for (GapId id : ids_of(l.live.gaps)) {
    const Gap& gap = l.live.gaps[id];
    if (!gap.open() || pick(rng, 0, 2) != 0) continue;
    const auto first = static_cast<int>(gap.release.value) + 1;
    const auto to = static_cast<int>(gap.to.value);
    if (first >= to) continue;
    if (pick(rng, 0, 3) == 0) {
      plan.decide(id, Keep{.reason = "test"});
      continue;
    }
    const auto fetch = static_cast<std::uint32_t>(pick(rng, first, to));
    Position release;
    if (pick(rng, 0, 1) == 0) {
      release = Position(static_cast<std::uint32_t>(pick(rng, first, static_cast<int>(fetch))));
    }
    Offload offload{.fetch_at = Position(fetch),
                    .release_at = release,
                    .tier = pick(rng, 0, 1) == 0 ? Tier::kHost : Tier::kNvme};
    const auto last = static_cast<int>(release.valid() ? release.value : fetch - 1);
    if (last >= first && pick(rng, 0, 2) == 0) {
      offload.copy_at = Position(static_cast<std::uint32_t>(pick(rng, first, last)));
    }
    if (pick(rng, 0, 3) == 0) {
      offload.compressed = Bytes(l.graph.storages[gap.storage].bytes.count / 2 + 1);
    }
    plan.decide(id, offload);
  }
  for (int k = pick(rng, 0, 2); k > 0; --k) {
    plan.throttle(
        {.stream = static_cast<Stream>(pick(rng, 1, 6)),
         .in_flight = pick(rng, 0, 2),
         .waits = pick(rng, 0, 1) == 0 ? Throttle::Waits::kHost : Throttle::Waits::kCompute});
  }
  l.program = lower(l.graph, l.order, l.live, plan.decisions(), {}, plan.throttles());
  return l;
}

CostTable fixed_costs(const TrainingGraph& graph) {
  CostTable costs;
  for (const Operator& op : graph.operators) {
    costs.device.push_back(op.work.fixed);
    costs.dispatch.push_back(Duration(7));
  }
  costs.copy_out = {.ns_per_byte_alone = 0.4, .ns_per_byte_duplex = 0.7, .latency = Duration(20)};
  costs.copy_in = {.ns_per_byte_alone = 0.5, .ns_per_byte_duplex = 0.9, .latency = Duration(20)};
  costs.nvme_read = {.ns_per_byte_alone = 1, .ns_per_byte_duplex = 1, .latency = Duration(90)};
  costs.nvme_write = {.ns_per_byte_alone = 2, .ns_per_byte_duplex = 2, .latency = Duration(90)};
  costs.tax_copy_in = 0.02;
  return costs;
}

// Whether anything reads what copy `i` has made: a launch, another copy that matters, or the end.
bool matters(const StepProgram& program, std::size_t i) {
  const AllocationId target = program.uses_of(i)[1].allocation();
  for (std::size_t j = i + 1; j < program.size(); ++j) {
    if (program.opcode[j] == Opcode::kFree && program.subject[j] == target.value) return false;
    for (AllocationUse use : program.uses_of(j)) {
      if (use.allocation() != target) continue;
      if (use.access() == Access::kMutate) return true;
      if (use.access() != Access::kRead) return false;
      if (program.opcode[j] == Opcode::kLaunch || matters(program, j)) return true;
    }
  }
  return true;
}

// Whether a block holds a storage's value at its home, or the only one, when the run ends.
bool is_home(const Placed& l, AllocationId block) {
  const Allocation& b = l.program.allocations[block];
  return b.tier == l.graph.storages[b.storage].home;
}

}  // namespace

TEST_SUITE("property") {
  TEST_CASE("programs with random homes, executors, tiers and throttles verify and run") {
    Rng rng(20261121);
    int off_device = 0;
    int on_host = 0;
    std::array<int, 9> opcodes{};
    for (int round = 0; round < 1500; ++round) {
      CAPTURE(round);
      const Placed l = random_placement(rng);
      const std::vector<std::string> problems = verify(l.graph, l.order, l.order, l.program);
      REQUIRE_MESSAGE(problems.empty(), (problems.empty() ? std::string() : problems.front()));
      IdealAllocator allocator{kGiB};
      allocator.reserve(l.program.allocations.size());
      Scratch scratch;
      scratch.prepare(l.program, true);
      const RunResult result = run(l.program, fixed_costs(l.graph), allocator, scratch,
                                   {.host_capacity = kGiB, .nvme_capacity = kGiB});
      REQUIRE(result.status == RunStatus::kCompleted);
      // Every nanosecond that compute stands still has one cause.
      Duration lost = result.host_bound;
      for (Duration stream : result.exposed)
        lost += stream;
      REQUIRE(lost + result.busy[0] == result.step);
      off_device += l.off_device;
      on_host += l.on_host;
      for (Opcode opcode : l.program.opcode)
        ++opcodes.at(static_cast<std::size_t>(opcode));
    }
    CHECK(off_device > 1000);
    CHECK(on_host > 1000);
    CHECK(opcodes[static_cast<std::size_t>(Opcode::kNvmeRead)] > 1000);
    CHECK(opcodes[static_cast<std::size_t>(Opcode::kNvmeWrite)] > 1000);
    CHECK(opcodes[static_cast<std::size_t>(Opcode::kHostWait)] > 1000);
  }
}

TEST_SUITE("unit") {
  TEST_CASE("verify finds what a lowering that confuses tiers does") {
    Rng rng(41);
    std::array<int, 4> tried{};
    for (int round = 0; round < 300; ++round) {
      CAPTURE(round);
      const Placed l = random_placement(rng);
      const auto found = [&](const StepProgram& broken) {
        return !verify(l.graph, l.order, l.order, broken).empty();
      };
      std::vector<std::size_t> copies;
      std::vector<std::size_t> host_launches;
      for (std::size_t i = 0; i < l.program.size(); ++i) {
        const Opcode opcode = l.program.opcode[i];
        if (opcode >= Opcode::kCopyOut && opcode <= Opcode::kNvmeRead) copies.push_back(i);
        if (opcode == Opcode::kLaunch &&
            l.program.stream[i] == static_cast<std::uint8_t>(Stream::kHostWorker)) {
          host_launches.push_back(i);
        }
      }
      if (!copies.empty()) {
        const std::size_t i =
            copies[static_cast<std::size_t>(pick(rng, 0, static_cast<int>(copies.size()) - 1))];
        // A copy is left out: someone reads missing content, or a value does not get home.
        StepProgram skipped = l.program;
        skipped.opcode[i] = Opcode::kWait;
        const bool at_home = is_home(l, l.program.uses_of(i)[1].allocation());
        if (at_home && matters(l.program, i)) {
          REQUIRE(found(skipped));
          ++tried[0];
        }
        // A copy goes in the wrong direction.
        StepProgram reversed = l.program;
        std::swap(reversed.uses[reversed.first_use[i]], reversed.uses[reversed.first_use[i] + 1]);
        REQUIRE(found(reversed));
        ++tried[1];
      }
      for (std::size_t i : host_launches) {
        // The update runs on the device although its values are on the host.
        StepProgram moved = l.program;
        moved.stream[i] = static_cast<std::uint8_t>(Stream::kCompute);
        REQUIRE(found(moved));
        ++tried[2];
        break;
      }
      // An allocation is on another tier than the operators that use it.
      StepProgram misplaced = l.program;
      for (AllocationId block : ids_of(misplaced.allocations)) {
        if (misplaced.allocations[block].tier != Tier::kHost) continue;
        misplaced.allocations[block].tier = Tier::kDevice;
        REQUIRE(found(misplaced));
        ++tried[3];
        break;
      }
    }
    for (int count : tried)
      CHECK(count > 50);
  }

  TEST_CASE("an update on the host costs a copy of the gradient and one of the parameter") {
    // device: f, b (makes dw); host: update (reads dw, overwrites w). Homes are on the device.
    TrainingGraph graph;
    graph.blocks = 1;
    const StorageId w = graph.storages.push_back({.bytes = Bytes(100),
                                                  .role = Role::kParameter,
                                                  .initial = true,
                                                  .persistent = true,
                                                  .name = "w"});
    const StorageId dw = graph.storages.push_back(
        {.bytes = Bytes(50), .role = Role::kGradient, .persistent = true, .name = "dw"});
    const auto add = [&](Phase phase, Executor executor, std::vector<Touch> touches) {
      Operator op;
      op.name = "op";
      op.phase = phase;
      op.executor = executor;
      op.work = {.op_class = OperatorClass::kFixed, .fixed = Duration(1000)};
      return graph.add_operator(std::move(op), touches);
    };
    graph.part(PartKind::kBackward)
        .push_back(
            add(Phase::kBackward, Executor::kDevice, {{w, Access::kRead}, {dw, Access::kCreate}}));
    graph.part(PartKind::kOptimizer)
        .push_back(add(Phase::kOptimizer, Executor::kHost,
                       {{dw, Access::kRead}, {w, Access::kOverwrite}}));
    const ProgramOrder order = program_order(graph, 2);
    const Liveness live = analyze_liveness(graph, order);
    const StepProgram program =
        lower(graph, order, live, IdVector<GapId, Decision>(live.gaps.size()));
    REQUIRE(verify(graph, order, order, program).empty());
    CostTable costs;
    costs.device = IdVector<OperatorId, Duration>(2, Duration(1000));
    costs.dispatch = IdVector<OperatorId, Duration>(2, Duration(0));
    costs.copy_out = {.ns_per_byte_alone = 2, .ns_per_byte_duplex = 2};
    costs.copy_in = {.ns_per_byte_alone = 3, .ns_per_byte_duplex = 3};
    IdealAllocator allocator{kGiB};
    allocator.reserve(program.allocations.size());
    Scratch scratch;
    scratch.prepare(program, false);
    const RunResult result =
        run(program, costs, allocator, scratch, {.host_capacity = kGiB, .nvme_capacity = kGiB});
    // 1000 backward, 50 * 2 gradient out, 1000 update, 100 * 3 parameter in.
    CHECK(result.step == Duration(2400));
    CHECK(result.exposed[static_cast<std::size_t>(Stream::kCopyOut)] == Duration(100));
    CHECK(result.exposed[static_cast<std::size_t>(Stream::kHostWorker)] == Duration(1000));
    CHECK(result.exposed[static_cast<std::size_t>(Stream::kCopyIn)] == Duration(300));
    CHECK(result.exposed_transfer == Duration(400));
  }
}

}  // namespace tidemark::tiers_test
