// tidemark list and tidemark describe.
#include <array>
#include <string_view>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "cli/commands/command.hpp"
#include "cli/commands/plugins.hpp"
#include "cli/text/catalogue.hpp"
#include "graph/core/errors.hpp"
#include "hwprofiles/gpu_names.hpp"
#include "plots/role_style.hpp"
#include "plots/table.hpp"
#include "scenarios/read/environment.hpp"

namespace tidemark {
namespace list_detail {
namespace {

// Kinds of catalogues().
constexpr std::array<std::string_view, 5> kKinds{"models", "gpus", "policies", "allocators",
                                                 "optimizers"};

Environment environment_with(const std::vector<std::string>& plugins, const Console& console) {
  Environment environment = default_environment(console.program);
  load_plugins(plugins, environment.policies);
  return environment;
}

std::string list_text(const Catalogue& catalogue, const Console& console) {
  std::string text;
  std::string group;
  Table table({{""}, {""}}, 2);
  const auto flush = [&] {
    if (table.empty()) return;
    if (!group.empty()) text += bold(group, console.colour) + '\n';
    text += table.text(console.colour, console.terminal ? console.width : 0);
    table = Table({{""}, {""}}, 2);
  };
  for (const CatalogueEntry& entry : catalogue.entries()) {
    if (entry.group != group) flush();
    group = entry.group;
    table.add_row({{entry.name, 74}, {entry.summary}});
  }
  flush();
  return text + catalogue.footer();
}

void add_plugin_option(CLI::App& app, std::vector<std::string>& plugins) {
  app.add_option("--plugin", plugins, "load policies from a shared library; repeatable")
      ->type_name("FILE")
      ->expected(1)
      ->take_all()
      ->allow_extra_args(false);
}

}  // namespace
}  // namespace list_detail

void ListCommand::attach(CLI::App& parent) {
  app = parent.add_subcommand(kName, "list models, gpus, policies, allocators or optimizers");
  app->add_option("KIND", kind, "what to list")
      ->required()
      ->type_name(choice_type(list_detail::kKinds));
  list_detail::add_plugin_option(*app, plugins);
}

int ListCommand::execute(const Console& console) const {
  std::vector<std::string> kinds;
  const Environment environment = list_detail::environment_with(plugins, console);
  for (const Catalogue& catalogue : catalogues(environment)) {
    if (catalogue.kind == kind || catalogue.singular == kind) {
      print(wrap_meanings(list_detail::list_text(catalogue, console),
                          console.terminal ? console.width : 0));
      return kExitFits;
    }
    kinds.push_back(catalogue.kind);
  }
  std::string hint = did_you_mean(kind, kinds);
  if (hint.empty()) hint = fmt::format("; choose from {}", fmt::join(kinds, ", "));
  throw UserError(
      fmt::format("list: {} is nothing to list{}", tidemark::quoted_excerpt(kind), hint));
}

void DescribeCommand::attach(CLI::App& parent) {
  app = parent.add_subcommand(kName, "explain a model, GPU, policy, allocator or optimizer");
  app->footer(R"(Examples:
  tidemark describe a100-sxm-80gb          every figure with its source
  tidemark describe offload_activations    parameters with defaults and ranges)");
  app->add_option("NAME", name, "a name that `tidemark list` shows")->required();
  list_detail::add_plugin_option(*app, plugins);
}

int DescribeCommand::execute(const Console& console) const {
  std::vector<std::string> names;
  std::string text;
  const Environment environment = list_detail::environment_with(plugins, console);
  const auto describe = [&](const std::string& wanted) {
    for (const Catalogue& catalogue : catalogues(environment, wanted)) {
      for (const CatalogueEntry& entry : catalogue.entries()) {
        names.push_back(entry.name);
        if (entry.name != wanted) continue;
        if (!text.empty()) text += '\n';  // a name may belong to several kinds
        text += entry.describe(console);
      }
    }
  };
  describe(name);
  if (text.empty()) {
    const std::vector<std::string> meant = profiles_meant(name, gpu_names(environment));
    if (meant.size() == 1) describe(meant.front());
    if (meant.size() > 1) {
      throw UserError(fmt::format("describe: several GPUs are called {}: {}",
                                  tidemark::quoted_excerpt(name), fmt::join(meant, ", ")));
    }
  }
  if (text.empty()) {
    std::string hint = did_you_mean(name, names);
    if (hint.empty()) hint = nearest_gpu(name, gpu_names(environment));
    if (hint.empty()) {
      hint = "; see tidemark list models, gpus, policies, allocators or optimizers";
    }
    throw UserError(
        fmt::format("describe: nothing is called {}{}", tidemark::quoted_excerpt(name), hint));
  }
  print(wrap_meanings(text, console.terminal ? console.width : 0));
  return kExitFits;
}

}  // namespace tidemark
