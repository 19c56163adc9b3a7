// Online eviction on a device: recomputation restores the content that was there, memory stays
// below the capacity, and the choices are those of a replay of the same program as a log.
#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "graph/core/errors.hpp"
#include "policies/eviction/coop.hpp"
#include "policies/eviction/online/online_eviction.hpp"
#include "policies/registry.hpp"
#include "sim/engine/content_check.hpp"
#include "sim/memory/torch/torch_allocator.hpp"
#include "tests/support/random_program.hpp"

namespace tidemark::eviction_test {

using tidemark::test::fixed_costs;
using tidemark::test::Lowered;
using tidemark::test::pick;
using tidemark::test::random_program;
using tidemark::test::Rng;
using tidemark::test::run_ideal;

namespace {

const std::vector<std::string> kHeuristics{"dtr",  "dtr_eq", "dtr_local", "dtr_full",  "lru",
                                           "size", "msps",   "random",    "megengine", "coop"};
const std::vector<std::string> kModes{"eager", "ignore", "banish"};

std::unique_ptr<EvictionPolicy> policy_of(const std::string& text) {
  const PolicyRegistry registry;
  const Value document = parse_document("{" + text + "}", "test.yaml");
  AnyPolicy policy = registry.find("eviction")->decode(Decoder(document), {});
  return std::move(std::get<std::unique_ptr<EvictionPolicy>>(policy));
}

std::unique_ptr<EvictionPolicy> policy_of(const std::string& heuristic, const std::string& mode) {
  // MegEngine ignores small blocks: here it considers all.
  const std::string more = heuristic == "megengine" ? ", min_bytes: 0" : "";
  return policy_of("heuristic: " + heuristic + ", mode: " + mode + more);
}

RunResult run_torch(const Lowered& l, std::int64_t capacity, EvictionPolicy* eviction) {
  TorchAllocator allocator{Bytes(capacity), {}};
  allocator.reserve(l.program.allocations.size());
  Scratch scratch;
  scratch.prepare(l.program, true);
  return run(
      l.program, fixed_costs(l.graph), allocator, scratch,
      {.host_capacity = Bytes(1024 * kGiB.count), .eviction = eviction, .check_contents = true});
}

// A step in which every operator makes one value of a few earlier ones.
Lowered lower_values(TrainingGraph graph) {
  Lowered l;
  l.graph = std::move(graph);
  check_invariants(l.graph);
  l.plain = l.order = program_order(l.graph, 1);
  l.live = analyze_liveness(l.graph, l.order);
  const ResidencyPlan plan(l.live);
  l.program = lower(l.graph, l.order, l.live, plan.decisions());
  return l;
}

struct ValueGraph {
  TrainingGraph graph;
  StorageId input;

  ValueGraph() {
    graph.name = "values";
    graph.blocks = 1;
    graph.samples = 1;
    input = graph.storages.push_back({.bytes = Bytes(1),
                                      .role = Role::kInput,
                                      .initial = true,
                                      .persistent = true,
                                      .name = "x"});
  }
  StorageId add(std::int64_t bytes, std::int64_t cost, const std::vector<StorageId>& reads) {
    const StorageId made =
        graph.storages.push_back({.bytes = Bytes(bytes), .role = Role::kTemporary, .name = "v"});
    Operator op;
    op.name = "f";
    op.work.op_class = OperatorClass::kFixed;
    op.work.fixed = Duration(cost);
    std::vector<Touch> touches;
    for (StorageId s : reads)
      touches.push_back({s, Access::kRead});
    touches.push_back({made, Access::kCreate});
    graph.part(PartKind::kForward).push_back(graph.add_operator(std::move(op), touches));
    return made;
  }
};

Lowered random_values(Rng& rng) {
  ValueGraph g;
  std::vector<StorageId> values{g.input};
  const int count = pick(rng, 5, 60);
  for (int i = 0; i < count; ++i) {
    std::vector<StorageId> reads{values.back()};
    for (int more = pick(rng, 0, 2); more > 0; --more) {
      const StorageId s =
          values[static_cast<std::size_t>(pick(rng, 0, static_cast<int>(values.size()) - 1))];
      if (std::find(reads.begin(), reads.end(), s) == reads.end()) reads.push_back(s);
    }
    values.push_back(g.add(pick(rng, 1, 5000), pick(rng, 1, 1'000'000), reads));
  }
  return lower_values(std::move(g.graph));
}

// The uniform chain of DTR's theorem: the backward of a layer reads its input and the gradient.
Lowered chain_values(int layers) {
  ValueGraph g;
  std::vector<StorageId> x{g.input};
  for (int i = 1; i <= layers; ++i)
    x.push_back(g.add(1, 1, {x.back()}));
  StorageId gradient = g.add(1, 1, {x.back()});
  for (int i = layers; i >= 1; --i)
    gradient = g.add(1, 1, {x[static_cast<std::size_t>(i) - 1], gradient});
  return lower_values(std::move(g.graph));
}

// Returns the same program as an online log: allocations that the program frees are released there.
EvictionLog log_of(const StepProgram& program, const CostTable& costs) {
  EvictionLog log;
  std::map<std::uint32_t, std::uint32_t> tensor_of;
  const auto define = [&](AllocationId block, std::int64_t cost, LogStepKind kind) {
    const auto id = static_cast<std::uint32_t>(log.tensors.size());
    const Bytes bytes = program.allocations[block].bytes;
    tensor_of[block.value] = id;
    log.operators.push_back({.cost = cost, .bytes = bytes, .first_output = id, .outputs = 1});
    log.inputs.close_row();
    log.tensors.push_back({.bytes = bytes, .op = id, .storage = id});
    log.storages.push_back({.bytes = bytes, .root = id});
    log.steps.push_back({kind, id});
  };
  for (std::uint32_t i = 0; i < program.size(); ++i) {
    const AllocationId subject(program.subject[i]);
    if (program.opcode[i] == Opcode::kAllocate &&
        program.allocations[subject].role == Role::kInput) {
      define(subject, 0, LogStepKind::kConstant);
    } else if (program.opcode[i] == Opcode::kLaunch) {
      AllocationId made;
      for (AllocationUse use : program.uses_of(i)) {
        if (use.access() == Access::kRead) {
          log.inputs.values.push_back(tensor_of.at(use.allocation().value));
        } else {
          made = use.allocation();
        }
      }
      define(made, costs.device[OperatorId(program.subject[i])].count(), LogStepKind::kCompute);
    } else if (program.opcode[i] == Opcode::kFree) {
      log.steps.push_back({LogStepKind::kRelease, tensor_of.at(subject.value)});
    }
  }
  connect_storages(log);
  return log;
}

}  // namespace

TEST_SUITE("property") {
  TEST_CASE("eviction restores the content that was there, below the capacity, or memory is out") {
    Rng rng(2007);
    std::map<std::string, std::int64_t> restores;
    std::map<RunStatus, int> ended;
    for (int round = 0; round < 400; ++round) {
      CAPTURE(round);
      const Lowered l = random_program(rng);
      const std::int64_t peak = run_ideal(l, kGiB.count).most_live.count;
      const std::int64_t capacity = peak * pick(rng, 85, 99) / 100;
      const std::string& mode = kModes[static_cast<std::size_t>(round % 3)];
      CAPTURE(mode);
      for (const std::string& heuristic : kHeuristics) {
        CAPTURE(heuristic);
        if (heuristic == "coop") continue;  // needs addresses
        const auto policy = policy_of(heuristic, mode);
        const RunResult result = run_ideal(l, capacity, policy.get(), true);
        REQUIRE(result.status != RunStatus::kDeadlock);
        REQUIRE(result.most_live.count <= capacity);
        restores[heuristic] += result.restores;
        ++ended[result.status];
        // A policy keeps nothing from run to run.
        const RunResult again = run_ideal(l, capacity, policy.get(), true);
        REQUIRE(again.evictions == result.evictions);
        REQUIRE(again.restores == result.restores);
        REQUIRE(again.total == result.total);
      }
    }
    for (const auto& [heuristic, count] : restores) {
      CAPTURE(heuristic);
      CHECK(count > 50);
    }
    CHECK(ended[RunStatus::kCompleted] > 300);
    CHECK(ended[RunStatus::kOutOfMemory] > 100);
  }

  TEST_CASE("the same on the caching allocator, address-aware variants included") {
    Rng rng(31);
    std::map<std::string, std::int64_t> restores;
    for (int round = 0; round < 80; ++round) {
      CAPTURE(round);
      Lowered l = round % 2 == 0 ? random_program(rng) : random_values(rng);
      // Uses sizes that have segments: 2 MiB for small, 20 MiB for larger ones.
      for (Allocation& block : l.program.allocations)
        block.bytes = Bytes(block.bytes.count * 4096);
      const std::int64_t reserved =
          run_torch(l, std::int64_t{1} << 40, nullptr).most_reserved.count;
      const std::int64_t capacity = reserved * pick(rng, 60, 99) / 100;
      for (const std::string& heuristic : kHeuristics) {
        CAPTURE(heuristic);
        const auto policy = policy_of(heuristic, kModes[static_cast<std::size_t>(round % 3)]);
        const RunResult result = run_torch(l, capacity, policy.get());
        REQUIRE(result.status != RunStatus::kDeadlock);
        REQUIRE(result.most_reserved.count <= capacity);
        restores[heuristic] += result.restores;
      }
    }
    for (const auto& [heuristic, count] : restores) {
      CAPTURE(heuristic);
      CHECK(count > 20);
    }
  }

  TEST_CASE("a device evicts as a replay of the same program as a log does") {
    Rng rng(77);
    std::int64_t evictions = 0;
    for (int round = 0; round < 150; ++round) {
      CAPTURE(round);
      const Lowered l = random_values(rng);
      const EvictionLog log = log_of(l.program, fixed_costs(l.graph));
      const std::int64_t peak = run_ideal(l, kGiB.count).most_live.count;
      const std::int64_t budget = peak * pick(rng, 40, 99) / 100;
      for (int h = 0; h < 7; ++h) {  // all but random, which numbers its candidates otherwise
        const std::string heuristic(eviction_heuristic_names()[static_cast<std::size_t>(h)]);
        for (int m = 0; m < 3; ++m) {
          CAPTURE(heuristic);
          CAPTURE(m);
          const EvictionResult stated =
              replay_eviction(log, {.heuristic = static_cast<EvictionHeuristic>(h),
                                    .mode = static_cast<DeallocationMode>(m),
                                    .budget = Bytes(budget)});
          const auto policy = policy_of(heuristic, kModes[static_cast<std::size_t>(m)]);
          const RunResult result = run_ideal(l, budget, policy.get(), true);
          REQUIRE((result.status == RunStatus::kCompleted) ==
                  (stated.status == EvictionStatus::kOk));
          REQUIRE(result.evictions == stated.policy_evictions);
          REQUIRE(result.restores == stated.remat_operators);
          if (stated.status == EvictionStatus::kOk) REQUIRE(result.most_live == stated.peak);
          evictions += result.evictions;
        }
      }
    }
    CHECK(evictions > 5000);
  }
}

TEST_SUITE("paper") {
  TEST_CASE("DTR's theorem on a device: 2N operators within a constant at 2 sqrt(N) memory") {
    for (const int layers : {16, 64, 256, 1024}) {
      const Lowered l = chain_values(layers);
      const auto budget = 1 + 2 * static_cast<std::int64_t>(std::ceil(std::sqrt(layers)));
      for (const char* heuristic : {"dtr", "dtr_eq"}) {
        CAPTURE(layers);
        CAPTURE(heuristic);
        const auto policy = policy_of(heuristic, "eager");
        const RunResult result = run_ideal(l, budget, policy.get(), true);
        REQUIRE(result.status == RunStatus::kCompleted);
        CHECK(result.most_live.count <= budget);
        CHECK(2 * layers + result.restores <= 2 * (2 * layers));
      }
    }
  }
}

TEST_SUITE("unit") {
  TEST_CASE("the content check finds a recipe whose input has changed") {
    ValueGraph g;
    const StorageId a = g.add(10, 1, {g.input});
    const StorageId b = g.add(10, 1, {a});
    (void)g.add(10, 1, {a, b});
    Operator update;
    update.name = "update";
    update.work.op_class = OperatorClass::kFixed;
    const std::vector<Touch> in_place{{g.input, Access::kMutate}};
    g.graph.part(PartKind::kForward).push_back(g.graph.add_operator(std::move(update), in_place));
    const Lowered l = lower_values(std::move(g.graph));
    std::vector<std::uint32_t> launches;
    for (std::uint32_t i = 0; i < l.program.size(); ++i) {
      if (l.program.opcode[i] == Opcode::kLaunch) launches.push_back(i);
    }
    REQUIRE(launches.size() == 4);
    const AllocationId block_a = l.program.uses_of(launches[1])[0].allocation();
    const AllocationId input = l.program.uses_of(launches[0])[0].allocation();
    ContentCheck check(l.program);
    check.execute(launches[0]);
    check.execute(launches[1]);
    check.lose(block_a);
    CHECK_THROWS_AS(check.execute(launches[2]), InternalError);  // reads a dropped allocation
    check.repeat(launches[0]);
    check.execute(launches[2]);
    check.lose(block_a);
    CHECK_THROWS_AS(check.repeat(launches[1]), InternalError);  // would compute b from nothing
    check.execute(launches[3]);
    // would compute a from the present content of x
    CHECK_THROWS_AS(check.repeat(launches[0]), InternalError);
    check.lose(input);
    CHECK_THROWS_AS(check.repeat(launches[0]), InternalError);
  }

  TEST_CASE("Coop takes the cheapest stretch of neighbours that holds the request") {
    // The costs are 8, 1, 1 and 4 at staleness 1; b and c are neighbours, a and d are alone.
    const std::vector<Duration> cost{Duration(8), Duration(1), Duration(1), Duration(4)};
    const auto coop = make_coop({});
    coop->begin({.allocations = 4, .cost = cost, .recipes = {}});
    std::vector<EvictableAllocation> blocks;
    for (std::uint32_t b = 0; b < 4; ++b) {
      coop->made(AllocationId(b));
      blocks.push_back(
          {.allocation = AllocationId(b), .bytes = Bytes(10), .recompute_cost = cost[b]});
    }
    //  a 10 | free 10 | b 10 | c 10 || d 10 | free 10
    const std::vector<MemoryPiece> pieces{
        {Bytes(0), Bytes(10), 0, false},  {Bytes(10), Bytes(10), MemoryPiece::kFree, true},
        {Bytes(20), Bytes(10), 1, true},  {Bytes(30), Bytes(10), 2, true},
        {Bytes(40), Bytes(10), 3, false}, {Bytes(50), Bytes(10), MemoryPiece::kFree, true}};
    const auto chosen = [&](std::int64_t requested) {
      return coop->choose({.now = Duration(1),
                           .requested = Bytes(requested),
                           .evictable = blocks,
                           .pieces = pieces});
    };
    CHECK(chosen(20) == std::vector<std::size_t>{1});        // free + b: 1
    CHECK(chosen(30) == std::vector<std::size_t>{1, 2});     // free + b + c: 2
    CHECK(chosen(40) == std::vector<std::size_t>{0, 1, 2});  // a too: 10
    CHECK(chosen(50) == std::vector<std::size_t>{
                            3});  // no neighbours: all of the second, 4 for 20 bytes, not 10 for 40
  }

  TEST_CASE("MegEngine counts the free memory beside a block, and leaves small ones alone") {
    const std::vector<Duration> cost(3, Duration(1'000'000));
    std::vector<EvictableAllocation> blocks;
    for (std::uint32_t b = 0; b < 3; ++b)
      blocks.push_back({.allocation = AllocationId(b), .bytes = kMiB});
    blocks[1].free_neighbours = kMiB;
    blocks[2].bytes = Bytes(kMiB.count - 1);
    blocks[2].free_neighbours = Bytes(64 * kMiB.count);
    const auto chosen = [&](Bytes smallest) {
      const auto policy = make_megengine({}, {.smallest = smallest});
      policy->begin({.allocations = 3, .cost = cost, .recipes = {}});
      return policy->choose(
          {.now = Duration(5'000'000), .requested = kMiB, .evictable = blocks, .pieces = {}});
    };
    CHECK(chosen(kMiB) == std::vector<std::size_t>{1});
    CHECK(chosen(Bytes(0)) == std::vector<std::size_t>{2});
    CHECK(chosen(Bytes(2 * kMiB.count)).empty());
    blocks[1].restores = 10'000;  // 1.0001^10000 = 2.72: dearer than the first
    CHECK(chosen(kMiB) == std::vector<std::size_t>{0});
  }

  TEST_CASE("with sqrt_sampling MegEngine scores the square root of the candidates") {
    // Free memory next to the last of ten allocations makes it the best; four are looked at.
    const std::vector<Duration> cost(10, Duration(1'000'000));
    std::vector<EvictableAllocation> blocks;
    for (std::uint32_t b = 0; b < 10; ++b)
      blocks.push_back({.allocation = AllocationId(b), .bytes = kMiB});
    blocks[9].free_neighbours = kMiB;
    int best = 0;
    for (std::uint64_t seed = 0; seed < 200; ++seed) {
      const auto policy = make_megengine({}, {.sqrt_sampling = true, .seed = seed});
      const auto choose = [&] {
        policy->begin({.allocations = 10, .cost = cost, .recipes = {}});
        return policy->choose(
            {.now = Duration(5'000'000), .requested = kMiB, .evictable = blocks, .pieces = {}});
      };
      const std::vector<std::size_t> victim = choose();
      REQUIRE(victim.size() == 1);
      CHECK(choose() == victim);
      best += victim[0] == 9 ? 1 : 0;
    }
    // 4 of 10 on average, 80 of 200 runs; five standard deviations are 35.
    CHECK(best > 45);
    CHECK(best < 115);
  }

  TEST_CASE("a parameter that the heuristic does not read is refused where it stands") {
    for (const char* text :
         {"heuristic: lru, seed: 3", "heuristic: megengine, seed: 3",
          "heuristic: dtr, min_bytes: 2MiB", "heuristic: coop, sqrt_sampling: true"}) {
      CAPTURE(text);
      CHECK_THROWS_WITH_AS(policy_of(text), doctest::Contains("does not read it"), UserError);
    }
    CHECK(policy_of("heuristic: megengine, sqrt_sampling: true, seed: 3")->name() == "megengine");
    CHECK(policy_of("heuristic: lru, seed: 0, min_bytes: 1MiB")->name() == "lru");
  }

  TEST_CASE("unknown heuristics, modes and factors below 1 are refused") {
    for (const char* text : {"heuristic: dtr_equal", "mode: lazy", "thrash_factor: 0.5"}) {
      CAPTURE(text);
      CHECK_THROWS_AS(policy_of(text), UserError);
    }
    CHECK(policy_of("heuristic: random, seed: 3")->name() == "random");
  }
}

}  // namespace tidemark::eviction_test
