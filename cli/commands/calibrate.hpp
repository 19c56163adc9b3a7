// tidemark calibrate and tidemark validate: a profile's figures against measurements.
#pragma once

#include <string>
#include <vector>

#include "cli/text/console.hpp"

namespace CLI {
class App;
}  // namespace CLI

namespace tidemark {

struct CalibrateCommand {
  static constexpr const char* kName = "calibrate";
  CLI::App* app = nullptr;
  std::string profile;
  std::vector<std::string> tables;
  std::string output;
  std::string held_out = "0.5";
  std::string seed = "0";
  std::string dtype;  // type of Nsight Systems' ranges; empty: none is given
  bool json = false;
  void attach(CLI::App& parent);
  [[nodiscard]] int execute(const Console& console) const;
};

struct ValidateCommand {
  static constexpr const char* kName = "validate";
  CLI::App* app = nullptr;
  std::vector<std::string> tables;
  std::string profile;  // empty: that of each row's device
  std::string folder;
  std::string models;  // folder of timm's models; empty: looked for
  std::string dtype;   // type of Nsight Systems' ranges; empty: none is given
  std::size_t top = 5;
  int threads = 0;
  bool json = false;
  void attach(CLI::App& parent);
  [[nodiscard]] int execute(const Console& console) const;
};

}  // namespace tidemark
