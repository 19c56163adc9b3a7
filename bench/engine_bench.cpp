#include <optional>

#include <benchmark/benchmark.h>

#include "bench/figures.hpp"
#include "sim/engine/engine.hpp"
#include "sim/memory/ideal_allocator.hpp"
#include "sim/memory/page_locked_memory.hpp"
#include "sim/memory/torch/torch_allocator.hpp"
#include "sim/program/lower.hpp"
#include "sim/program/verify.hpp"
#include "tests/support/random_training_graph.hpp"

namespace tidemark::bench {
namespace {

// A random training step of about `instructions` instructions, priced at fixed costs.
struct Step {
  TrainingGraph graph;
  ProgramOrder order;
  Liveness live;
  StepProgram program;
  CostTable costs;

  explicit Step(int instructions) {
    test::Rng rng(1);
    const int operators_per_block = 20;
    // A forward operator becomes about nine instructions, its backward included.
    const int blocks = std::max(1, instructions / (operators_per_block * 9));
    graph = test::random_training_graph(
        rng, {.blocks = blocks, .operators_per_block = operators_per_block, .in_place = true});
    order = program_order(graph, 1);
    live = analyze_liveness(graph, order);
    program = lower(graph, order, live, IdVector<GapId, Decision>(live.gaps.size()));
    for (const Operator& op : graph.operators) {
      costs.device.push_back(op.work.fixed);
      costs.dispatch.push_back(Duration(100));
    }
  }
};

// Returns the same program with every gap that is long enough moved to the host or to NVMe, and
// throttled streams.
StepProgram offloaded_program(const Step& step) {
  ResidencyPlan plan(step.live);
  plan.begin_policy(0, "bench");
  for (GapId id : ids_of(step.live.gaps)) {
    const Gap& gap = step.live.gaps[id];
    if (!gap.open() || gap.to.value < gap.release.value + 4) continue;
    plan.decide(id, Offload{.fetch_at = Position(gap.to.value - 1),
                            .release_at = {},
                            .tier = id.value % 2 == 0 ? Tier::kHost : Tier::kNvme});
  }
  plan.throttle({.stream = Stream::kNvmeWrite, .in_flight = 4});
  plan.throttle({.stream = Stream::kCopyOut, .in_flight = 4});
  return lower(step.graph, step.order, step.live, plan.decisions(), {}, plan.throttles());
}

RunResult run_once(const Step& step, Scratch& scratch, bool record) {
  IdealAllocator allocator{kUnlimited};
  allocator.reserve(step.program.allocations.size());
  scratch.prepare(step.program, record);
  return run(step.program, step.costs, allocator, scratch,
             {.host_capacity = kGiB, .eviction = nullptr, .record_events = record});
}

// Returns the time of run() alone; preparation allocates and is not part of it. Runs reuse memory,
// as those of a sweep do.
double run_seconds(const StepProgram& program, const CostTable& costs, const RunOptions& options) {
  constexpr int kRuns = 9;
  std::vector<double> seconds;
  Scratch scratch;
  IdealAllocator allocator{kUnlimited};
  for (int i = 0; i < kRuns; ++i) {
    allocator = IdealAllocator{kUnlimited};
    allocator.reserve(program.allocations.size());
    scratch.prepare(program, true, options.page_locked);
    seconds.push_back(median_seconds(1, [&] {
      const RunResult result = run(program, costs, allocator, scratch, options);
      benchmark::DoNotOptimize(result.live.bytes.count);
    }));
  }
  std::sort(seconds.begin(), seconds.end());
  return seconds[seconds.size() / 2];
}

void run_ideal(benchmark::State& state) {
  const Step step(static_cast<int>(state.range(0)));
  Scratch scratch;
  for (auto _ : state)
    benchmark::DoNotOptimize(run_once(step, scratch, true).live.bytes.count);
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(step.program.size()));
}
BENCHMARK(run_ideal)->Arg(10'000)->Arg(100'000)->Arg(1'000'000)->Unit(benchmark::kMillisecond);

void run_torch(benchmark::State& state) {
  const Step step(static_cast<int>(state.range(0)));
  Scratch scratch;
  for (auto _ : state) {
    TorchAllocator allocator{kUnlimited};
    allocator.reserve(step.program.allocations.size());
    scratch.prepare(step.program, true);
    benchmark::DoNotOptimize(run(step.program, step.costs, allocator, scratch,
                                 {.host_capacity = kGiB, .record_events = true})
                                 .live.bytes.count);
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(step.program.size()));
}
BENCHMARK(run_torch)->Arg(100'000)->Arg(1'000'000)->Unit(benchmark::kMillisecond);

void lower_program(benchmark::State& state) {
  const Step step(static_cast<int>(state.range(0)));
  for (auto _ : state) {
    const StepProgram program =
        lower(step.graph, step.order, step.live, IdVector<GapId, Decision>(step.live.gaps.size()));
    benchmark::DoNotOptimize(program.size());
  }
}
BENCHMARK(lower_program)->Arg(100'000)->Arg(1'000'000)->Unit(benchmark::kMillisecond);

void verify_program(benchmark::State& state) {
  const Step step(static_cast<int>(state.range(0)));
  for (auto _ : state) {
    benchmark::DoNotOptimize(verify(step.graph, step.order, step.order, step.program).size());
  }
}
BENCHMARK(verify_program)->Arg(100'000)->Arg(1'000'000)->Unit(benchmark::kMillisecond);

}  // namespace

std::vector<Figure> engine_figures() {
  std::vector<Figure> figures;
  double million_rate = 0;
  for (int size : {250'000, 500'000, 1'000'000, 2'000'000, 4'000'000}) {
    const Step step(size);
    const auto count = static_cast<double>(step.program.size());
    const double seconds =
        run_seconds(step.program, step.costs, {.host_capacity = kGiB, .record_events = true});
    const double rate = count / seconds;
    if (size == 1'000'000) million_rate = rate;
    figures.push_back({.name = "engine.instructions_per_second." + std::to_string(size),
                       .value = rate,
                       .unit = "1/s",
                       .required = size == 1'000'000 ? ">= 1e7" : ""});
    if (size == 4'000'000) {
      figures.push_back({.name = "engine.rate_at_4000000_over_rate_at_1000000",
                         .value = rate / million_rate,
                         .unit = "",
                         .required = "about 1: grows linearly"});
    }
    if (size != 1'000'000) continue;
    Scratch scratch;
    IdealAllocator allocator{kUnlimited};
    allocator.reserve(step.program.allocations.size());
    scratch.prepare(step.program, true);
    const std::size_t before = allocation_count();
    const RunResult result = run(step.program, step.costs, allocator, scratch,
                                 {.host_capacity = kGiB, .record_events = true});
    const std::size_t inside = allocation_count() - before;
    figures.push_back({.name = "engine.allocations_inside_run",
                       .value = static_cast<double>(inside),
                       .unit = "",
                       .required = "0"});
    benchmark::DoNotOptimize(result.live.bytes.count);
    TorchAllocator torch{kUnlimited};
    torch.reserve(step.program.allocations.size());
    scratch.prepare(step.program, true);
    const std::size_t before_torch = allocation_count();
    const RunResult torch_result = run(step.program, step.costs, torch, scratch,
                                       {.host_capacity = kGiB, .record_events = true});
    const std::size_t inside_torch = allocation_count() - before_torch;
    figures.push_back({.name = "engine.allocations_inside_run_torch",
                       .value = static_cast<double>(inside_torch),
                       .unit = "",
                       .required = "0"});
    benchmark::DoNotOptimize(torch_result.live.bytes.count);
    const StepProgram offloaded = offloaded_program(step);
    CostTable costs = step.costs;
    costs.copy_out = costs.copy_in = {.ns_per_byte_alone = 0.02, .ns_per_byte_duplex = 0.03};
    costs.nvme_read = costs.nvme_write = {.ns_per_byte_alone = 0.1, .ns_per_byte_duplex = 0.1};
    allocator = IdealAllocator{kUnlimited};
    allocator.reserve(offloaded.allocations.size());
    Scratch moved_scratch;
    moved_scratch.prepare(offloaded, true, PageLockedMemory::kPowerOfTwo);
    const RunOptions moves{.host_capacity = kUnlimited,
                           .nvme_capacity = kUnlimited,
                           .page_locked = PageLockedMemory::kPowerOfTwo,
                           .record_events = true};
    const std::size_t before_offload = allocation_count();
    const RunResult moved = run(offloaded, costs, allocator, moved_scratch, moves);
    const std::size_t inside_offload = allocation_count() - before_offload;
    benchmark::DoNotOptimize(moved.live.bytes.count);
    figures.push_back({.name = "engine.allocations_inside_run_offload",
                       .value = static_cast<double>(inside_offload),
                       .unit = "",
                       .required = "0"});
    figures.push_back(
        {.name = "engine.instructions_per_second_offload",
         .value = static_cast<double>(offloaded.size()) / run_seconds(offloaded, costs, moves),
         .unit = "1/s",
         .required = ">= 1e7"});
    figures.push_back({.name = "engine.instructions", .value = count, .unit = ""});
    figures.push_back(
        {.name = "engine.bytes_per_instruction",
         .value = static_cast<double>(step.program.memory_bytes() + scratch.memory_bytes()) / count,
         .unit = "B",
         .required = "< 150"});
  }
  return figures;
}

}  // namespace tidemark::bench
