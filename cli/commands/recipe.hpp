// tidemark recipe: the ways to train a model on a GPU, as settings to copy.
#pragma once

#include <cstdint>
#include <string>

#include "cli/commands/scenario_input.hpp"
#include "cli/text/console.hpp"

namespace tidemark {

struct RecipeCommand {
  static constexpr const char* kName = "recipe";
  CLI::App* app = nullptr;
  ScenarioInput input;
  std::string method = "any";
  int count = 0;  // 0: what the scenario says, or one
  std::int64_t largest_micro_batch = 16;
  bool json = false;
  int threads = 0;  // 0: as many as there are cores
  void attach(CLI::App& parent);
  [[nodiscard]] int execute(const Console& console) const;
};

}  // namespace tidemark
