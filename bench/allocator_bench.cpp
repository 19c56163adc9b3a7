#include <cmath>
#include <cstdint>
#include <filesystem>
#include <random>
#include <vector>

#include <benchmark/benchmark.h>
#include <unistd.h>

#include "bench/figures.hpp"
#include "sim/memory/bfc_allocator.hpp"
#include "sim/memory/torch/torch_caching_allocator.hpp"
#include "sim/memory/trace/replay.hpp"

namespace tidemark::bench {
namespace {

constexpr Bytes kDevice = 80 * kGiB;

// A call: allocate `bytes` into `slot`, or free the slot when bytes are 0.
struct Call {
  std::uint32_t slot = 0;
  Bytes bytes;
};

// Returns the calls of training steps of changing length: each allocates in order and frees most of
// it in reverse, as forward and backward do, with short-lived blocks between.
std::vector<Call> training_calls(std::size_t count) {
  constexpr std::uint32_t kSlots = 600;
  std::mt19937 random(3);
  std::vector<Call> calls;
  calls.reserve(count + 2 * kSlots);
  std::uint32_t temporary = kSlots;
  while (calls.size() < count) {
    const std::uint32_t depth = 200 + static_cast<std::uint32_t>(random() % (kSlots - 200));
    const double length = std::uniform_real_distribution<double>(0.5, 2)(random);
    const auto size = [&](std::uint32_t slot) {
      const double scale = std::exp2(9.0 + static_cast<double>(slot * 7 % 17));
      return Bytes(static_cast<std::int64_t>(scale * length) + 1);
    };
    const auto short_lived = [&](std::uint32_t slot) {
      calls.push_back({temporary, size(slot + 5)});
      calls.push_back({temporary, Bytes(0)});
    };
    for (std::uint32_t slot = 0; slot < depth; ++slot) {
      calls.push_back({slot, size(slot)});
      short_lived(slot);
    }
    for (std::uint32_t slot = depth; slot-- > 0;) {
      short_lived(slot);
      calls.push_back({slot, Bytes(0)});
    }
  }
  return calls;
}

struct TorchDriver {
  TorchCachingAllocator allocator;
  TorchStream stream;
  explicit TorchDriver(std::string_view conf)
      : allocator(kDevice, parse_alloc_conf(conf)), stream(allocator.stream(0)) {
    allocator.reserve(1000);
  }
  TorchBlock* allocate(Bytes bytes) { return allocator.allocate(bytes, stream); }
  void free(TorchBlock* block) { allocator.free(*block); }
};

struct BfcDriver {
  BfcAllocator allocator{kDevice, {}};
  BfcChunk* allocate(Bytes bytes) { return allocator.allocate(bytes); }
  void free(BfcChunk* chunk) { allocator.free(*chunk); }
};

template <class Driver>
void make(Driver& driver, const std::vector<Call>& calls) {
  std::vector<decltype(driver.allocate(Bytes(1)))> slots(1000);
  for (const Call& call : calls) {
    if (call.bytes > Bytes(0)) {
      slots[call.slot] = driver.allocate(call.bytes);
    } else {
      driver.free(slots[call.slot]);
    }
  }
}

double torch_rate(const std::vector<Call>& calls, std::string_view conf) {
  const double seconds = median_seconds(9, [&] {
    TorchDriver driver(conf);
    make(driver, calls);
  });
  return static_cast<double>(calls.size()) / seconds;
}

// Returns the rate for the same calls as a trace on disk, read, replayed and answered row by row.
double file_rate(const std::vector<Call>& calls, bool answers) {
  const auto folder = std::filesystem::temp_directory_path();
  const std::string stem = "tidemark-bench-" + std::to_string(getpid());
  const std::string trace = (folder / (stem + ".csv")).string();
  const std::string out = (folder / (stem + "-out.csv")).string();
  WholeFile file(trace);
  file.write("op,id,bytes,stream\n");
  std::vector<std::int64_t> id(1000);
  std::int64_t next = 0;
  for (const Call& call : calls) {
    if (call.bytes > Bytes(0)) {
      id[call.slot] = ++next;
      file.write("a," + std::to_string(next) + ',' + std::to_string(call.bytes.count) + ",0\n");
    } else {
      file.write("f," + std::to_string(id[call.slot]) + ",0,0\n");
    }
  }
  file.commit();
  const double seconds = median_seconds(5, [&] {
    std::optional<WholeFile> rows;
    if (answers) rows.emplace(out);
    const ReplayResult result = replay_trace(trace, {.capacity = kDevice}, rows ? &*rows : nullptr);
    benchmark::DoNotOptimize(result.rows);
    if (rows) rows->commit();
  });
  std::filesystem::remove(trace);
  std::filesystem::remove(out);
  return static_cast<double>(calls.size()) / seconds;
}

void torch_calls(benchmark::State& state) {
  const std::vector<Call> calls = training_calls(1'000'000);
  for (auto _ : state) {
    TorchDriver driver(state.range(0) == 0 ? "" : "expandable_segments:True");
    make(driver, calls);
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(calls.size()));
}
BENCHMARK(torch_calls)->Arg(0)->Arg(1)->ArgName("expandable")->Unit(benchmark::kMillisecond);

void bfc_calls(benchmark::State& state) {
  const std::vector<Call> calls = training_calls(1'000'000);
  for (auto _ : state) {
    BfcDriver driver;
    make(driver, calls);
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(calls.size()));
}
BENCHMARK(bfc_calls)->Unit(benchmark::kMillisecond);

}  // namespace

std::vector<Figure> allocator_figures() {
  const std::vector<Call> calls = training_calls(1'000'000);
  std::vector<Figure> figures;
  const auto add = [&](const std::string& name, double rate, const std::string& required) {
    figures.push_back({.name = name, .value = rate, .unit = "1/s", .required = required});
  };
  add("allocator.torch.events_per_second", torch_rate(calls, ""), ">= 3e6");
  add("allocator.torch_expandable.events_per_second", torch_rate(calls, "expandable_segments:True"),
      ">= 3e6");
  const double bfc = median_seconds(9, [&] {
    BfcDriver driver;
    make(driver, calls);
  });
  add("allocator.bfc.events_per_second", static_cast<double>(calls.size()) / bfc, "");
  add("allocator.replay.events_per_second", file_rate(calls, false), ">= 3e6");
  add("allocator.replay_with_answers.events_per_second", file_rate(calls, true), "");

  TorchDriver driver("");
  const std::vector<Call> few(calls.begin(), calls.begin() + 10'000);
  std::vector<TorchBlock*> slots(1000);
  const std::size_t before = allocation_count();
  for (const Call& call : few) {
    if (call.bytes > Bytes(0)) {
      slots[call.slot] = driver.allocate(call.bytes);
    } else {
      driver.free(slots[call.slot]);
    }
  }
  const std::size_t inside = allocation_count() - before;
  figures.push_back({.name = "allocator.torch.host_allocations",
                     .value = static_cast<double>(inside),
                     .unit = "",
                     .required = "0"});
  return figures;
}

}  // namespace tidemark::bench
