#include <numeric>

#include <doctest/doctest.h>

#include "policies/plan/policy.hpp"
#include "policies/registry.hpp"
#include "policies/remat/reversal.hpp"
#include "sim/engine/engine.hpp"
#include "sim/program/lower.hpp"
#include "sim/program/verify.hpp"
#include "tests/support/random_program.hpp"

namespace tidemark::program_test {

using tidemark::test::fixed_costs;
using tidemark::test::Lowered;
using tidemark::test::pick;
using tidemark::test::random_program;
using tidemark::test::Rng;
using tidemark::test::run_ideal;

namespace {

std::int64_t peak_of_program(const StepProgram& program) {
  std::int64_t live = 0;
  std::int64_t peak = 0;
  for (std::size_t i = 0; i < program.size(); ++i) {
    if (program.opcode[i] != Opcode::kAllocate && program.opcode[i] != Opcode::kFree) continue;
    const Allocation& block = program.allocations[AllocationId(program.subject[i])];
    if (block.tier == Tier::kHost) continue;
    live += program.opcode[i] == Opcode::kAllocate ? block.bytes.count : -block.bytes.count;
    if (program.slot[program.position[i].index()].last_step) peak = std::max(peak, live);
  }
  return peak;
}

// Whether stream order and the edges that are left order `earlier` before `later`.
bool implied(const StepProgram& program, std::size_t earlier, std::size_t later) {
  std::vector<char> after(program.size(), 0);
  std::array<bool, kStreams> stream_is_after{};
  for (std::size_t i = earlier; i <= later; ++i) {
    if (program.opcode[i] == Opcode::kAllocate || program.opcode[i] == Opcode::kFree) continue;
    bool& stream = stream_is_after.at(program.stream[i]);
    bool is_after = i == earlier || stream;
    for (std::uint32_t edge : program.edges_of(i))
      is_after = is_after || after[edge] != 0;
    after[i] = is_after ? 1 : 0;
    stream = is_after;
  }
  return after[later] != 0;
}

}  // namespace

TEST_SUITE("property") {
  TEST_CASE("programs of random graphs under random policy stacks verify and run") {
    Rng rng(20260101);
    std::int64_t offloads = 0;
    std::int64_t repeats = 0;
    for (int trial = 0; trial < 1500; ++trial) {
      CAPTURE(trial);
      const Lowered l = random_program(rng);
      const std::vector<std::string> problems = verify(l.graph, l.plain, l.order, l.program);
      REQUIRE_MESSAGE(problems.empty(), (problems.empty() ? std::string() : problems.front()));
      const RunResult result = run_ideal(l, kGiB.count);
      REQUIRE(result.status == RunStatus::kCompleted);
      REQUIRE(result.live.bytes.count == peak_of_program(l.program));
      // No schedule is faster than the work on its busiest stream.
      Duration compute{};
      for (std::size_t i = 0; i < l.program.size(); ++i) {
        if (l.program.opcode[i] == Opcode::kLaunch) {
          compute += l.graph.operators[OperatorId(l.program.subject[i])].work.fixed;
        }
      }
      REQUIRE(result.total >= compute);
      offloads += l.offloads;
      repeats += static_cast<std::int64_t>(l.order.at.size() - l.plain.at.size());
    }
    CHECK(offloads > 1000);  // the trials really have exercised the policies
    CHECK(repeats > 1000);
  }

  TEST_CASE("with eviction, a run at any capacity stays below it or reports out of memory") {
    Rng rng(7);
    std::int64_t evictions = 0;
    std::int64_t completed = 0;
    for (int trial = 0; trial < 400; ++trial) {
      CAPTURE(trial);
      const Lowered l = random_program(rng);
      const std::int64_t peak = run_ideal(l, kGiB.count).live.bytes.count;
      const AnyPolicy lru = [] {
        const PolicyRegistry registry;
        return registry.find("eviction")->decode(Decoder(), {});
      }();
      const std::int64_t capacity = peak * pick(rng, 85, 99) / 100;
      const RunResult result =
          run_ideal(l, capacity, std::get<std::unique_ptr<EvictionPolicy>>(lru).get());
      REQUIRE(result.status != RunStatus::kDeadlock);
      REQUIRE(result.live.bytes.count <= capacity);
      evictions += result.evictions;
      completed += result.status == RunStatus::kCompleted ? 1 : 0;
    }
    CHECK(evictions > 300);
    CHECK(completed > 40);  // the others do not fit their capacity
    MESSAGE(completed << " of 400 completed, " << evictions << " evictions");
  }

  TEST_CASE("the peak with unlimited memory is the least capacity that completes") {
    Rng rng(99);
    for (int trial = 0; trial < 200; ++trial) {
      const Lowered l = random_program(rng);
      std::int64_t most = 0;  // maximum over all steps
      std::int64_t live = 0;
      for (std::size_t i = 0; i < l.program.size(); ++i) {
        const Allocation& block = l.program.allocations[AllocationId(l.program.subject[i])];
        if (l.program.opcode[i] == Opcode::kAllocate && block.tier == Tier::kDevice) {
          most = std::max(most, live += block.bytes.count);
        } else if (l.program.opcode[i] == Opcode::kFree && block.tier == Tier::kDevice) {
          live -= block.bytes.count;
        }
      }
      CHECK(run_ideal(l, most).status == RunStatus::kCompleted);
      CHECK(run_ideal(l, most - 1).status == RunStatus::kOutOfMemory);
    }
  }
}

TEST_SUITE("unit") {
  TEST_CASE("verify finds what a broken lowering does") {
    Rng rng(3);
    int edges_missed = 0;
    int masks_missed = 0;
    int leaks_missed = 0;
    int tried = 0;
    for (int trial = 0; trial < 200; ++trial) {
      const Lowered l = random_program(rng);
      if (l.offloads == 0) continue;
      ++tried;
      const auto found = [&](const StepProgram& broken) {
        return !verify(l.graph, l.plain, l.order, broken).empty();
      };
      StepProgram no_edges = l.program;
      no_edges.edges.clear();
      std::fill(no_edges.first_edge.begin(), no_edges.first_edge.end(), 0U);
      edges_missed += found(no_edges) ? 0 : 1;

      StepProgram no_events = l.program;
      bool had_events = false;
      StepProgram no_free = l.program;
      for (std::size_t i = 0; i < l.program.size(); ++i) {
        if (l.program.opcode[i] != Opcode::kFree) continue;
        had_events = had_events || l.program.stream[i] != 0;
        no_events.stream[i] = 0;
        no_free.opcode[i] = Opcode::kWait;
        no_free.stream[i] = 0;
      }
      if (had_events) masks_missed += found(no_events) ? 0 : 1;
      leaks_missed += found(no_free) ? 0 : 1;
    }
    CHECK(tried > 50);
    CHECK(edges_missed == 0);
    CHECK(masks_missed == 0);
    CHECK(leaks_missed == 0);
  }

  TEST_CASE("verify finds every single edge that is left out, unless a path implies it") {
    Rng rng(11);
    int tried = 0;
    for (int trial = 0; trial < 60; ++trial) {
      const Lowered l = random_program(rng);
      for (std::size_t e = 0; e < l.program.edges.size(); ++e) {
        StepProgram broken = l.program;
        broken.edges.erase(broken.edges.begin() + static_cast<std::ptrdiff_t>(e));
        for (std::uint32_t& first : broken.first_edge)
          first -= first > e ? 1 : 0;
        std::size_t waiter = 0;
        while (l.program.first_edge[waiter + 1] <= e)
          ++waiter;
        if (implied(broken, l.program.edges[e], waiter)) continue;
        ++tried;
        REQUIRE_FALSE(verify(l.graph, l.plain, l.order, broken).empty());
      }
    }
    CHECK(tried > 500);
  }

  TEST_CASE("verify finds a recomputation that reads what has changed") {
    Rng rng(5);
    Lowered l = random_program(rng);
    l.graph = test::random_training_graph(
        rng, {.blocks = 2, .operators_per_block = 3, .in_place = false});
    l.plain = program_order(l.graph, 2);
    // The first forward operator of step 0 repeated in step 1, labelled as of step 0: its weights
    // have been updated since.
    std::size_t with_weight = 0;
    for (std::size_t i = 0; i < l.graph.part(PartKind::kForward).size(); ++i) {
      for (const Touch& t : l.graph.touches_of(l.graph.part(PartKind::kForward)[i])) {
        if (l.graph.storages[t.storage].role == Role::kParameter) with_weight = i;
      }
    }
    l.order = l.plain;
    for (Occurrence& o : l.order.at) {
      if (o.step == 1 && o.op == l.graph.part(PartKind::kForward)[with_weight]) o.step = 0;
    }
    l.live = analyze_liveness(l.graph, l.order);
    l.program = lower(l.graph, l.order, l.live, IdVector<GapId, Decision>(l.live.gaps.size()));
    const std::vector<std::string> problems = verify(l.graph, l.plain, l.order, l.program);
    REQUIRE_FALSE(problems.empty());
    CHECK(problems.front().find("other content") != std::string::npos);
  }

  TEST_CASE("revolve repeats as few block forwards as the closed form says") {
    const auto binomial = [](int n, int k) {
      double value = 1;
      for (int i = 1; i <= k; ++i)
        value = value * (n - k + i) / i;
      return static_cast<std::int64_t>(value + 0.5);
    };
    for (int blocks = 1; blocks <= 40; ++blocks) {
      for (int checkpoints = 0; checkpoints < 6 && checkpoints < blocks; ++checkpoints) {
        const int c = checkpoints + 1;
        int r = 0;
        while (binomial(c + r, c) < blocks)
          ++r;
        const std::int64_t expected = r == 0 ? 0 : r * blocks - binomial(c + r, c + 1);
        std::int64_t repeats = 0;
        for (const std::vector<int>& before : revolve_repeats(blocks, checkpoints)) {
          repeats += static_cast<std::int64_t>(before.size());
        }
        CAPTURE(blocks);
        CAPTURE(checkpoints);
        CHECK(repeats == expected);
      }
    }
  }
}

}  // namespace tidemark::program_test
