// tidemark_bench           google-benchmark, with its own flags
// tidemark_bench --json    the figures that the issues name, as one JSON document
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <new>
#include <string_view>

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

int main(int argc, char** argv) {
  tidemark::keep_freed_memory();
  if (argc == 2 && std::string_view(argv[1]) == "--json") {
    nlohmann::ordered_json document;
    for (const auto& figures :
         {tidemark::bench::engine_figures(), tidemark::bench::pipeline_figures(),
          tidemark::bench::packing_figures(), tidemark::bench::allocator_figures(),
          tidemark::bench::plan_figures(), tidemark::bench::onnx_figures(),
          tidemark::bench::eviction_figures(), tidemark::bench::report_figures()}) {
      for (const tidemark::bench::Figure& figure : figures) {
        auto& entry = document["figures"][figure.name];
        entry["value"] = figure.value;
        entry["unit"] = figure.unit;
        if (!figure.required.empty()) entry["required"] = figure.required;
      }
    }
    std::printf("%s\n", document.dump(2).c_str());
    return 0;
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
