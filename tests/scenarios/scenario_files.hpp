// Scenario files that exist for one test, and the errors of reading them.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>

#include <unistd.h>

#include "graph/core/errors.hpp"
#include "scenarios/read/environment.hpp"
#include "scenarios/read/scenario.hpp"

namespace tidemark {

// A folder that is removed with the test.
class ScenarioFolder {
 public:
  explicit ScenarioFolder(const std::string& name)
      : path_(std::filesystem::temp_directory_path() /
              ("tidemark_scenarios_" + std::to_string(getpid()) + "_" + name)) {
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_);
  }
  ~ScenarioFolder() { std::filesystem::remove_all(path_); }
  ScenarioFolder(const ScenarioFolder&) = delete;
  ScenarioFolder& operator=(const ScenarioFolder&) = delete;

  // Writes a file and returns its path.
  std::string write(const std::string& file, const std::string& text) const {
    std::filesystem::create_directories((path_ / file).parent_path());
    std::ofstream(path_ / file) << text;
    return (path_ / file).string();
  }
  [[nodiscard]] std::string path(const std::string& file) const { return (path_ / file).string(); }

 private:
  std::filesystem::path path_;
};

inline const Environment& environment() {
  static const Environment kEnvironment = default_environment();
  return kEnvironment;
}

// Returns the message of a call that should throw.
template <class Call>
std::string error_of(const Call& call) {
  try {
    call();
  } catch (const UserError& error) {
    return error.what();
  }
  return "accepted";
}

// A scenario with a model and a GPU, and `more` from line 3 on.
inline std::string scenario_text(const std::string& more) {
  return "model: gpt2\nhardware: h100-sxm-80gb\n" + more;
}

inline Scenario decode(const std::string& text) {
  return decode_scenario(parse_document(text, "s.yaml"), environment());
}

// Returns the error of decoding this text; from line 3 on for `refusal_with`.
inline std::string refusal(const std::string& text) {
  return error_of([&] { static_cast<void>(decode(text)); });
}
inline std::string refusal_with(const std::string& more) {
  return refusal(scenario_text(more));
}

}  // namespace tidemark
