// Figures that the issues name, as `./bootstrap bench --json` prints them.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace tidemark::bench {

struct Figure {
  std::string name;
  double value = 0;
  std::string unit;
  std::string required;  // ">= 1e7"; empty where nothing is required
};

// Each file of benchmarks returns its figures.
std::vector<Figure> engine_figures();
std::vector<Figure> pipeline_figures();
std::vector<Figure> sweep_figures();
std::vector<Figure> packing_figures();
std::vector<Figure> allocator_figures();
std::vector<Figure> eviction_figures();
std::vector<Figure> plan_figures();
std::vector<Figure> report_figures();  // empty where npm was missing
std::vector<Figure> onnx_figures();    // empty where protobuf is not installed

// Returns the path of instances that are not part of the repository: below $TIDEMARK_SHARED, by
// default the folder `shared` next to the checkout.
std::filesystem::path shared_path(std::string_view below);

// Returns the number of calls of operator new so far, by this thread.
std::size_t allocation_count();

// Returns the median wall time of `runs` calls, in seconds.
template <class F>
double median_seconds(int runs, F&& body) {
  std::vector<double> seconds;
  for (int i = 0; i < runs; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    body();
    seconds.push_back(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  std::sort(seconds.begin(), seconds.end());
  return seconds[seconds.size() / 2];
}

}  // namespace tidemark::bench
