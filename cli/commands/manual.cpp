#include "cli/commands/manual.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/commands/option_values.hpp"
#include "cli/text/manual.hpp"
#include "graph/core/decoder.hpp"
#include "graph/core/errors.hpp"
#include "scenarios/read/environment.hpp"
#include "scenarios/read/schema.hpp"
#include "tidemark/version.hpp"

namespace tidemark {

void ManualCommand::attach(CLI::App& parent) {
  app = parent.add_subcommand(kName, "the manual page, as man reads it");
  app->footer(R"(Example:
  tidemark manual | man -l -)");
}

int ManualCommand::execute(const Console& /*console*/) const {
  print(manual_page(*app->get_parent(), kVersion));
  return kExitFits;
}

void SchemaCommand::attach(CLI::App& parent) {
  app = parent.add_subcommand(kName, "the JSON Schema of scenarios, for editors");
  app->footer(R"(An editor with a YAML language server finds it through a line of the scenario:
  # yaml-language-server: $schema=scenario.schema.json

Example:
  tidemark schema > scenario.schema.json)");
}

int SchemaCommand::execute(const Console& console) const {
  print(scenario_schema(default_environment(console.program)).dump(1) + '\n');
  return kExitFits;
}

void CompletionCommand::attach(CLI::App& parent) {
  app = parent.add_subcommand(kName, "what a shell completes, as a script for it");
  app->footer(R"(Examples:
  source <(tidemark completion bash)
  tidemark completion fish > ~/.config/fish/completions/tidemark.fish)");
  app->add_option("SHELL", shell, "the shell")->required()->type_name(choice_type(kShells));
}

int CompletionCommand::execute(const Console& /*console*/) const {
  const std::vector<std::string> known(std::begin(kShells), std::end(kShells));
  if (std::find(known.begin(), known.end(), shell) == known.end()) {
    throw UserError(fmt::format("there is no completion for {}{}", tidemark::quoted_excerpt(shell),
                                did_you_mean(shell, known)) +
                    fmt::format("; shells: {}", fmt::join(known, ", ")));
  }
  print(shell_completion(*app->get_parent(), shell));
  return kExitFits;
}

}  // namespace tidemark
