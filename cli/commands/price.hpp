// tidemark price: the time of single operators on a device.
#pragma once

#include <string>

#include "cli/text/console.hpp"

namespace CLI {
class App;
}  // namespace CLI

namespace tidemark {

struct PriceCommand {
  static constexpr const char* kName = "price";
  CLI::App* app = nullptr;
  std::string what;  // an operator, or a table of them
  std::string gpu;
  bool json = false;
  void attach(CLI::App& parent);
  [[nodiscard]] int execute(const Console& console) const;
};

}  // namespace tidemark
