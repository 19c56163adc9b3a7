// tidemark replay eviction: replays a recorded program within a budget, recomputing tensors on
// demand.
#pragma once

#include <string>

#include "cli/text/console.hpp"

namespace CLI {
class App;
}

namespace tidemark {

struct ReplayEvictionCommand {
  static constexpr const char* kName = "eviction";
  CLI::App* app = nullptr;
  std::string log;
  std::string heuristic;
  std::string mode;
  std::string budget;
  std::string thrash_factor;
  bool json = false;
  void attach(CLI::App& parent);
  [[nodiscard]] int execute(const Console& console) const;
};

}  // namespace tidemark
