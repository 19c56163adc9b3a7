// tidemark check: errors of scenario files without simulating them.
#include <fmt/format.h>

#include "cli/command.hpp"
#include "graph/core/errors.hpp"

namespace tidemark {
namespace {

// Reads every point of a document; throws at the first error.
std::size_t check_points(const Value& document, const Environment& environment) {
  const std::vector<std::vector<Override>> points = sweep_points(document);
  for (const std::vector<Override>& overrides : points) {
    Value point = document;
    for (const Override& change : overrides)
      apply_override(point, change);
    static_cast<void>(decode_scenario(point, environment));
  }
  return points.size();
}

}  // namespace

void CheckCommand::attach(CLI::App& parent) {
  app = parent.add_subcommand(kName, "look for errors in scenario files without simulating them");
  input.add_options(*app, true);
}

int CheckCommand::execute(const Console& console) const {
  const Environment environment = input.environment(console);
  int code = kExitFits;
  std::string text;
  // Each file on its own, so that one call shows the first error of every file.
  for (const std::string& name : input.names) {
    ScenarioInput one = input;
    one.names = {name};
    try {
      const std::size_t points = check_points(one.load().front(), environment);
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
