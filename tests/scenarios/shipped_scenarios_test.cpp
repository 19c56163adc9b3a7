// The scenarios that come with Tidemark.
#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "graph/import/layer_model.hpp"
#include "tests/scenarios/scenario_files.hpp"
#include "tests/support/paths.hpp"

namespace tidemark::shipped_scenarios_test {
namespace {

std::vector<std::string> shipped_scenarios() {
  std::vector<std::string> files;
  const std::filesystem::path folder = test::source_path("scenarios");
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.path().extension() != ".yaml") continue;
    // Some files are models that scenarios name.
    if (is_layer_model(read_document(entry.path().string()))) continue;
    files.push_back(entry.path().string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

TEST_SUITE("unit") {
  TEST_CASE("every point of every shipped scenario can be read") {
    const std::vector<std::string> files = shipped_scenarios();
    CHECK(files.size() >= 12);
    for (const std::string& file : files) {
      CAPTURE(file);
      const Value document = load_scenario(file);
      for (const std::vector<Override>& point : sweep_points(document)) {
        const Value changed = point_document(document, point);
        CHECK(error_of([&] { static_cast<void>(decode_scenario(changed, environment())); }) ==
              "accepted");
      }
    }
  }

  TEST_CASE("profiles are found in the checkout whatever the program is called") {
    CHECK(gpu_names(default_environment("tidemark")) == gpu_names(default_environment()));
    CHECK(gpu_names(default_environment("/nowhere/tidemark")) == gpu_names(default_environment()));
    CHECK_FALSE(gpu_names(default_environment()).empty());
  }
}

}  // namespace
}  // namespace tidemark::shipped_scenarios_test
