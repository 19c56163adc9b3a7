// tidemark_bench                   google-benchmark, with its own flags
// tidemark_bench --json [GROUP]    the figures that the issues name, as one JSON document
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <new>
#include <string_view>
#include <vector>

#include <benchmark/benchmark.h>
#include <nlohmann/json.hpp>

#include "bench/figures.hpp"
#include "graph/core/heap.hpp"

namespace {
thread_local std::size_t allocations = 0;
}

// Not inlined: g++ 12 would see malloc and free on one side only and warn of a mismatch.
[[gnu::noinline]] void* operator new(std::size_t size) {
  ++allocations;
  if (void* memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}

std::size_t tidemark::bench::allocation_count() {
  return allocations;
}

std::filesystem::path tidemark::bench::shared_path(std::string_view below) {
  const char* given = std::getenv("TIDEMARK_SHARED");
  const std::filesystem::path shared =
      given != nullptr ? given : std::filesystem::path(TIDEMARK_SOURCE_DIR) / "../shared";
  return shared / below;
}

namespace {

struct Group {
  std::string_view name;
  std::vector<tidemark::bench::Figure> (*figures)();
};

// By the files that they come from.
constexpr std::array kGroups{Group{"engine", tidemark::bench::engine_figures},
                             Group{"pipeline", tidemark::bench::pipeline_figures},
                             Group{"sweep", tidemark::bench::sweep_figures},
                             Group{"packing", tidemark::bench::packing_figures},
                             Group{"allocator", tidemark::bench::allocator_figures},
                             Group{"plan", tidemark::bench::plan_figures},
                             Group{"onnx", tidemark::bench::onnx_figures},
                             Group{"eviction", tidemark::bench::eviction_figures},
                             Group{"report", tidemark::bench::report_figures}};

int print_figures(std::string_view wanted) {
  nlohmann::ordered_json document;
  bool known = wanted.empty();
  for (const Group& group : kGroups) {
    if (!wanted.empty() && wanted != group.name) continue;
    known = true;
    for (const tidemark::bench::Figure& figure : group.figures()) {
      auto& entry = document["figures"][figure.name];
      entry["value"] = figure.value;
      entry["unit"] = figure.unit;
      if (!figure.required.empty()) entry["required"] = figure.required;
    }
  }
  if (!known) {
    std::fputs("--json: the groups are", stderr);
    for (const Group& group : kGroups)
      std::fprintf(stderr, " %s", group.name.data());
    std::fputc('\n', stderr);
    return 2;
  }
  std::printf("%s\n", document.dump(2).c_str());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  tidemark::keep_freed_memory();
  if ((argc == 2 || argc == 3) && std::string_view(argv[1]) == "--json")
    return print_figures(argc == 3 ? argv[2] : "");
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
