// tidemark check: shows errors of scenario files without simulating them.
#include <algorithm>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "cli/commands/command.hpp"
#include "graph/core/errors.hpp"
#include "scenarios/read/published.hpp"
#include "scenarios/read/scenario.hpp"
#include "scenarios/studies/accepted_sizes.hpp"
#include "scenarios/studies/compare.hpp"
#include "sim/step/compile.hpp"

namespace tidemark {
namespace check_detail {
namespace {

// Most points whose model is built too where it is a file of its own: shapes only show then.
constexpr std::size_t kBuiltModels = 16;

// Reads every point of a document's sweep, or its only one; throws at the first error.
std::size_t check_points_of_sweep(const Value& document, const Environment& environment) {
  const std::vector<std::vector<Override>> points = sweep_points(document);
  std::size_t built = 0;
  for (const std::vector<Override>& overrides : points) {
    Value point = document;
    for (const Override& change : overrides)
      apply_override(point, change);
    const Scenario scenario =
        points.size() == 1 ? decode_alone(point, environment) : decode_scenario(point, environment);
    if (&overrides == &points.front())
      check_published(decode_published(document, scenario.device.figures), points.size());
    const bool is_file = scenario.model.kind != ModelKind::kPreset;
    if (is_file && built++ < kBuiltModels) static_cast<void>(build_training(scenario));
  }
  return points.size();
}

// Reads the points of a document's sweep, and of its comparison if it has one. Returns how many the
// comparison has, or else the sweep; throws at the first error.
std::size_t check_points(const Value& document, const Environment& environment) {
  if (document.find("compare") != nullptr) {
    const CompareSpec spec = decode_compare(document, environment);
    const std::size_t compared = spec.lists.size() * std::max<std::size_t>(spec.budgets.size(), 1);
    // A cost graph needs no device to be compared, and without one it cannot be run as a scenario.
    if (document.find("hardware") == nullptr) return compared;
    static_cast<void>(check_points_of_sweep(document, environment));
    return compared;
  }
  return check_points_of_sweep(document, environment);
}

}  // namespace
}  // namespace check_detail

void CheckCommand::attach(CLI::App& parent) {
  app = parent.add_subcommand(kName, "look for errors in scenario files without simulating them");
  input.add_options(*app, true);
}

int CheckCommand::execute(const Console& console) const {
  const Environment environment = input.environment(console);
  int code = kExitFits;
  std::string text;
  // Files are read one by one, so that one call shows the first error of every file.
  for (const std::string& name : input.names) {
    ScenarioInput one = input;
    one.names = {name};
    try {
      const std::size_t points = check_detail::check_points(one.load().front(), environment);
      text += fmt::format("{}: ok, {} point{}\n", name, points, points == 1 ? "" : "s");
    } catch (const UserError& error) {
      print_error(console, error.what());
      code = kExitBadInput;
    }
  }
  print(text);
  return code;
}

}  // namespace tidemark
