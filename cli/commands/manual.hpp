// tidemark manual, schema and completion: texts about the commands and the scenarios themselves.
#pragma once

#include <string>

#include "cli/text/console.hpp"

namespace CLI {
class App;
}

namespace tidemark {

struct ManualCommand {
  static constexpr const char* kName = "manual";
  CLI::App* app = nullptr;
  void attach(CLI::App& parent);
  [[nodiscard]] int execute(const Console& console) const;
};

struct SchemaCommand {
  static constexpr const char* kName = "schema";
  CLI::App* app = nullptr;
  void attach(CLI::App& parent);
  [[nodiscard]] int execute(const Console& console) const;
};

struct CompletionCommand {
  static constexpr const char* kName = "completion";
  CLI::App* app = nullptr;
  std::string shell;
  void attach(CLI::App& parent);
  [[nodiscard]] int execute(const Console& console) const;
};

}  // namespace tidemark
