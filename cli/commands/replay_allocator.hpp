// tidemark replay allocator: replays a recorded trace of allocator calls.
#pragma once

#include <cstdint>
#include <string>

#include "cli/text/console.hpp"

namespace CLI {
class App;
}

namespace tidemark {

struct ReplayAllocatorCommand {
  static constexpr const char* kName = "allocator";
  CLI::App* app = nullptr;
  std::string trace;
  std::string allocator = "torch";
  std::string capacity;
  std::string conf;
  std::string memory_fraction;
  std::string event_delay;
  std::string device;
  std::string csv;
  std::string layout;
  bool json = false;
  void attach(CLI::App& parent);
  [[nodiscard]] int execute(const Console& console) const;
};

// Returns the command `replay`, whose subcommands are the kinds of recordings.
[[nodiscard]] CLI::App& replay_command(CLI::App& program);

}  // namespace tidemark
