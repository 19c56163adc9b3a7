// tidemark compare: compares policies under memory budgets, on one graph.
#pragma once

#include <string>
#include <vector>

#include "cli/commands/scenario_input.hpp"
#include "cli/text/console.hpp"

namespace tidemark {

struct CompareCommand {
  static constexpr const char* kName = "compare";
  CLI::App* app = nullptr;
  ScenarioInput input;
  std::string folder;
  std::vector<std::string> budgets;   // instead of compare.budgets
  std::vector<std::string> policies;  // instead of compare.policies
  bool json = false;
  int threads = 0;  // 0: as many as there are cores
  void attach(CLI::App& parent);
  [[nodiscard]] int execute(const Console& console) const;
};

}  // namespace tidemark
