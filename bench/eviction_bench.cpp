#include <cstdint>
#include <random>
#include <string>

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include "bench/figures.hpp"
#include "policies/eviction/online/log_reader.hpp"
#include "policies/eviction/online/online_eviction.hpp"

namespace tidemark::bench {
namespace {

// Returns the log of a training step of residual blocks with changing sizes and costs: two
// operators a block forward, four backward (one per gradient), released as autograd releases.
std::string training_log(int blocks, unsigned seed) {
  std::mt19937 random(seed);
  const auto between = [&](unsigned low, unsigned high) {
    return low + static_cast<unsigned>(random()) % (high - low);
  };
  std::string text = R"({"INSTRUCTION":"ANNOTATE","ANNOTATION":"START"})"
                     "\n";
  const auto memory = [&](const std::string& name, unsigned bytes) {
    text += fmt::format(R"({{"INSTRUCTION":"MEMORY","NAME":"{}","MEMORY":"{}"}})"
                        "\n",
                        name, bytes);
  };
  const auto constant = [&](const std::string& name, unsigned bytes) {
    text += fmt::format(R"({{"INSTRUCTION":"CONSTANT","NAME":"{}"}})"
                        "\n",
                        name);
    memory(name, bytes);
  };
  const auto call = [&](const std::string& arguments, const std::string& result, unsigned bytes) {
    text += fmt::format(R"({{"INSTRUCTION":"CALL","NAME":"f","ARGS":[{}],"RESULT":["{}"],)"
                        R"("TIME":"{}"}})"
                        "\n",
                        arguments, result, between(2000, 9000));
    memory(result, bytes);
    text += fmt::format(R"({{"INSTRUCTION":"ALIAS","NAME":"{}","ALIAS":"-1"}})"
                        "\n",
                        result);
  };
  const auto release = [&](const std::string& name) {
    text += fmt::format(R"({{"INSTRUCTION":"RELEASE","NAME":"{}"}})"
                        "\n",
                        name);
  };
  std::vector<unsigned> bytes(static_cast<std::size_t>(blocks) + 1);
  for (unsigned& each : bytes)
    each = between(1000, 8000);
  constant("y0", bytes[0]);
  for (int i = 1; i <= blocks; ++i)
    constant(fmt::format("w{}", i), between(10, 100));
  for (int i = 1; i <= blocks; ++i) {
    const unsigned size = bytes[static_cast<std::size_t>(i)];
    call(fmt::format(R"("y{}","w{}")", i - 1, i), fmt::format("h{}", i), size);
    call(fmt::format(R"("h{0}","y{1}")", i, i - 1), fmt::format("y{}", i), size);
  }
  call(fmt::format(R"("y{}")", blocks), fmt::format("g{}", blocks), 100);
  for (int i = blocks; i >= 1; --i) {
    const unsigned size = bytes[static_cast<std::size_t>(i)];
    call(fmt::format(R"("g{0}","h{0}")", i), fmt::format("u{}", i), size);
    call(fmt::format(R"("u{0}","y{1}")", i, i - 1), fmt::format("dw{}", i), 50);
    call(fmt::format(R"("u{0}","w{0}")", i), fmt::format("v{}", i), size);
    call(fmt::format(R"("v{0}","g{0}")", i), fmt::format("g{}", i - 1), size);
    for (const char* name : {"u", "v", "g", "h", "y"})
      release(fmt::format("{}{}", name, i));
  }
  return text;
}

struct Case {
  EvictionLog log;
  Bytes peak;  // peak without a budget
};

Case training_case(int operators) {
  Case made{.log = parse_eviction_log(training_log(operators / 6, 7), "training.log")};
  made.peak = replay_eviction(made.log, {.mode = DeallocationMode::kBanish,
                                         .budget = Bytes(std::int64_t{1} << 60)})
                  .peak;
  return made;
}

EvictionResult replay(const Case& made, EvictionHeuristic heuristic, double ratio,
                      DeallocationMode mode = DeallocationMode::kEager) {
  return replay_eviction(
      made.log,
      {.heuristic = heuristic,
       .mode = mode,
       .budget = Bytes(static_cast<std::int64_t>(static_cast<double>(made.peak.count) * ratio)),
       .thrash_factor = 10});
}

double rate(const Case& made, EvictionHeuristic heuristic, double ratio, DeallocationMode mode) {
  std::int64_t events = 0;
  const double seconds =
      median_seconds(5, [&] { events = replay(made, heuristic, ratio, mode).events; });
  return static_cast<double>(events) / seconds;
}

constexpr double kRatio = 0.5;

void eviction(benchmark::State& state) {
  const Case made = training_case(100'000);
  std::int64_t events = 0;
  for (auto _ : state)
    events += replay(made, static_cast<EvictionHeuristic>(state.range(0)), kRatio,
                     static_cast<DeallocationMode>(state.range(1)))
                  .events;
  state.SetItemsProcessed(events);
}
BENCHMARK(eviction)
    ->ArgsProduct({benchmark::CreateDenseRange(0, 5, 1), benchmark::CreateDenseRange(0, 2, 1)})
    ->ArgNames({"heuristic", "mode"})
    ->Unit(benchmark::kMillisecond);

}  // namespace

std::vector<Figure> eviction_figures() {
  std::vector<Figure> figures;
  const Case large = training_case(100'000);
  const auto add = [&](EvictionHeuristic heuristic, const std::string& required) {
    const auto name = eviction_heuristic_names()[static_cast<std::size_t>(heuristic)];
    for (const auto mode :
         {DeallocationMode::kEager, DeallocationMode::kIgnore, DeallocationMode::kBanish}) {
      const bool eager = mode == DeallocationMode::kEager;
      const auto mode_name = deallocation_mode_names()[static_cast<std::size_t>(mode)];
      figures.push_back(
          {.name = eager ? fmt::format("eviction.{}.events_per_second", name)
                         : fmt::format("eviction.{}.{}.events_per_second", name, mode_name),
           .value = rate(large, heuristic, kRatio, mode),
           .unit = "1/s",
           .required = required});
    }
  };
  add(EvictionHeuristic::kLru, ">= 1e6");
  add(EvictionHeuristic::kSize, "");
  add(EvictionHeuristic::kDtrLocal, ">= 1e6");
  add(EvictionHeuristic::kMsps, "");
  add(EvictionHeuristic::kDtr, ">= 1e5");
  add(EvictionHeuristic::kDtrEq, ">= 1e6");

  const Case small = training_case(10'000);
  const double grid = median_seconds(3, [&] {
    for (const auto heuristic :
         {EvictionHeuristic::kLru, EvictionHeuristic::kDtrLocal, EvictionHeuristic::kMsps,
          EvictionHeuristic::kDtr, EvictionHeuristic::kDtrEq}) {
      for (const double ratio : {0.9, 0.8, 0.7, 0.6, 0.5, 0.4})
        benchmark::DoNotOptimize(replay(small, heuristic, ratio).peak);
    }
  });
  figures.push_back({.name = "eviction.grid_30_runs_10000_operators.seconds",
                     .value = grid,
                     .unit = "s",
                     .required = "<= 2"});
  return figures;
}

}  // namespace tidemark::bench
