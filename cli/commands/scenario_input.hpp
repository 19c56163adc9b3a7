// Reads scenario files or models from the command line.
#pragma once

#include <string>
#include <vector>

#include "cli/text/console.hpp"
#include "scenarios/read/scenario.hpp"

namespace CLI {
class App;
}

namespace tidemark {

// Whether a file is a scenario by its ending and not a model described by its layers.
[[nodiscard]] bool is_scenario_file(const std::string& name);

// The scenarios or models that a command works on, with their changes and plugins.
struct ScenarioInput {
  std::vector<std::string> names;  // scenario files; with a GPU, models
  std::string gpu;
  // Further GPUs, for commands that take several: the hardware is swept then, one point for each.
  std::vector<std::string> other_gpus;
  std::vector<std::string> overrides;  // KEY=VALUE
  std::vector<std::string> plugins;

  void add_options(CLI::App& command, bool many, bool many_gpus = false);
  // Returns the documents, overrides applied. Throws UserError.
  [[nodiscard]] std::vector<Value> load() const;
  // Returns the first of them, of a sweep the first point. Throws UserError.
  [[nodiscard]] Scenario first_point(const Environment& environment) const;
  // Returns the line that says how to make a picture again: version and command line, without the
  // folders that files are in and without where the picture goes. `more` are further words.
  [[nodiscard]] std::string reproduce(const std::string& command,
                                      const std::vector<std::string>& more = {}) const;
  // Returns the command that runs one point of the sweep once the point's own settings are appended
  // to it; empty where several names are given, as then it is not known which one a point is of.
  [[nodiscard]] std::string point_command() const;
  // Loads the plugins, too. Throws UserError.
  [[nodiscard]] Environment environment(const Console& console) const;

 private:
  [[nodiscard]] std::string command_line(const std::string& command,
                                         const std::vector<std::string>& more) const;
};

// Returns `threads` as given, or as many as the machine has.
[[nodiscard]] int thread_count(int threads);

}  // namespace tidemark
