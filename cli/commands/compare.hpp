// tidemark compare: policies against memory budgets, on one graph.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include <CLI/CLI.hpp>

#include "cli/commands/command.hpp"
#include "scenarios/studies/compare.hpp"

namespace tidemark {

struct CompareCommand {
  static constexpr const char* kName = "compare";
  CLI::App* app = nullptr;
  ScenarioInput input;
  std::string folder;
  bool json = false;
  int threads = 0;  // 0: as many as there are cores
  void attach(CLI::App& parent);
  [[nodiscard]] int execute(const Console& console) const;
};

// One row per point, in their order. `width` 0: no limit.
[[nodiscard]] std::string compare_table(const Comparison& comparison, bool colour,
                                        std::size_t width);
// What is proven to be the least overhead of each budget, where all plans are of one class: by
// budget in bytes.
struct LeastOverheads {
  std::string schedule_class;  // empty: there is nothing to say
  std::map<std::int64_t, double> by_budget;
};
[[nodiscard]] LeastOverheads least_overheads(const Comparison& comparison);
// "optimal + offload_activations"
[[nodiscard]] std::string policies_label(const ComparePoint& point);

}  // namespace tidemark
