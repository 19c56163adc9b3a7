// tidemark plan: decides which values of a cost graph, or of a model's step as one, to keep and
// which to recompute.
#pragma once

#include <cstdint>
#include <string>

#include "cli/commands/scenario_input.hpp"
#include "cli/text/console.hpp"

namespace tidemark {

struct PlanCommand {
  static constexpr const char* kName = "plan";
  CLI::App* app = nullptr;
  ScenarioInput input;  // scenario, model, or a cost graph
  std::string policy = "optimal";
  std::string budget;
  std::string schedule_class = "fixed";
  std::string time_limit = "10s";
  std::int64_t iterations = 0;
  std::uint64_t seed = 1;
  bool json = false;
  void attach(CLI::App& parent);
  [[nodiscard]] int execute(const Console& console) const;
};

}  // namespace tidemark
