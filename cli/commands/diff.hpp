// tidemark diff: compares two peaks side by side.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "cli/commands/scenario_input.hpp"
#include "cli/text/console.hpp"

namespace tidemark {

struct DiffCommand {
  static constexpr const char* kName = "diff";
  CLI::App* app = nullptr;
  ScenarioInput input;                   // one name or two; overrides for both
  std::vector<std::string> overrides_a;  // KEY=VALUE
  std::vector<std::string> overrides_b;
  int device = -1;  // device of a snapshot; -1: the only one with entries
  std::size_t top = 20;
  bool all = false;
  bool json = false;
  void attach(CLI::App& parent);
  [[nodiscard]] int execute(const Console& console) const;
};

}  // namespace tidemark
