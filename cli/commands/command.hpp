// The commands. Each is a struct that declares its options on CLI11's parser and then runs;
// main.cpp holds one of each. Errors leave as exceptions: UserError for the user's, others for
// internal ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "cli/commands/option_values.hpp"
#include "cli/commands/scenario_input.hpp"
#include "cli/text/console.hpp"

namespace tidemark {

struct RunCommand {
  static constexpr const char* kName = "run";
  CLI::App* app = nullptr;
  ScenarioInput input;
  PlotOption plots;
  std::string folder;
  bool json = false;
  bool chart = false;     // draws charts for many points, too
  bool no_chart = false;  // draws none, not even for one point
  bool timing = false;
  int threads = 0;  // 0: as many as there are cores
  void attach(CLI::App& parent);
  [[nodiscard]] int execute(const Console& console) const;
};

struct SweepCommand {
  static constexpr const char* kName = "sweep";
  CLI::App* app = nullptr;
  CLI::App* merge = nullptr;
  ScenarioInput input;
  PlotOption plots;
  std::string folder;
  std::string shard;  // "0/3"; empty: all
  bool resume = false;
  bool smallest_capacity = false;
  bool json = false;
  int threads = 0;
  std::string merged_folder;
  bool merged_json = false;
  void attach(CLI::App& parent);
  [[nodiscard]] int execute(const Console& console) const;
};

struct FitCommand {
  static constexpr const char* kName = "fit";
  CLI::App* app = nullptr;
  ScenarioInput input;
  PlotOption plots;
  std::string folder;  // of results.json and the pictures; empty: none
  std::string key = "training.micro_batch";
  std::int64_t multiple_of = 1;
  std::int64_t limit = std::int64_t{1} << 20;
  std::string finder;             // a training library's finder; empty: none
  std::int64_t finder_start = 0;  // its first batch; 0: the library's
  int finder_margin = -1;         // percent; -1: the library's
  int threads = 0;
  bool json = false;
  void attach(CLI::App& parent);
  [[nodiscard]] int execute(const Console& console) const;
};

struct SearchCommand {
  static constexpr const char* kName = "search";
  CLI::App* app = nullptr;
  ScenarioInput input;
  std::size_t top = 10;
  bool every_point = false;
  bool json = false;
  int threads = 0;
  void attach(CLI::App& parent);
  [[nodiscard]] int execute(const Console& console) const;
};

struct ExplainCommand {
  static constexpr const char* kName = "explain";
  CLI::App* app = nullptr;
  ScenarioInput input;
  bool json = false;
  bool all = false;
  std::size_t top = 20;
  void attach(CLI::App& parent);
  [[nodiscard]] int execute(const Console& console) const;
};

struct CheckCommand {
  static constexpr const char* kName = "check";
  CLI::App* app = nullptr;
  ScenarioInput input;
  void attach(CLI::App& parent);
  [[nodiscard]] int execute(const Console& console) const;
};

struct GraphCommand {
  static constexpr const char* kName = "graph";
  CLI::App* app = nullptr;
  ScenarioInput input;
  bool dot = false;
  bool cost_graph = false;
  bool json = false;
  void attach(CLI::App& parent);
  [[nodiscard]] int execute(const Console& console) const;
};

struct ListCommand {
  static constexpr const char* kName = "list";
  CLI::App* app = nullptr;
  std::string kind;
  std::vector<std::string> plugins;
  void attach(CLI::App& parent);
  [[nodiscard]] int execute(const Console& console) const;
};

struct DescribeCommand {
  static constexpr const char* kName = "describe";
  CLI::App* app = nullptr;
  std::string name;
  std::vector<std::string> plugins;
  void attach(CLI::App& parent);
  [[nodiscard]] int execute(const Console& console) const;
};

struct InitCommand {
  static constexpr const char* kName = "init";
  CLI::App* app = nullptr;
  std::string file;    // empty: scenario.yaml, or the device's name
  std::string device;  // empty: a scenario is written
  void attach(CLI::App& parent);
  [[nodiscard]] int execute(const Console& console) const;
};

struct ImportCommand {
  static constexpr const char* kName = "import";
  CLI::App* app = nullptr;
  std::string file;
  std::string model;
  std::string gpu;
  int count = 0;       // 0: as the file says
  std::string output;  // empty: standard output
  bool json = false;
  void attach(CLI::App& parent);
  [[nodiscard]] int execute(const Console& console) const;
};

struct PackCommand {
  static constexpr const char* kName = "pack";
  CLI::App* app = nullptr;
  std::string buffers;
  std::string capacity;  // empty: none
  std::string time_limit = "10s";
  std::string out;
  bool json = false;
  void attach(CLI::App& parent);
  [[nodiscard]] int execute(const Console& console) const;
};

}  // namespace tidemark
