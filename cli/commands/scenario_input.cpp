#include "cli/commands/scenario_input.hpp"

#include <algorithm>
#include <thread>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "cli/commands/plugins.hpp"
#include "graph/core/errors.hpp"
#include "graph/core/paths.hpp"
#include "graph/import/layer_model.hpp"
#include "graph/models/preset.hpp"
#include "plots/report/html_report.hpp"
#include "scenarios/read/environment.hpp"
#include "scenarios/read/other_names.hpp"

namespace tidemark {
namespace scenario_input_detail {
namespace {

bool is_yaml(const std::string& name) {
  return name.ends_with(".yaml") || name.ends_with(".yml");
}

// Whether a file is a model described by its layers, which is no scenario.
bool is_layer_file(const std::string& name) {
  return is_yaml(name) && is_file(name) && is_layer_model(read_document(name));
}

// Explains a name that is no file before reading it says only that it is missing.
void check_scenario_name(const std::string& name) {
  if (is_layer_file(name)) {
    throw UserError(
        fmt::format("{} is a model: add --gpu NAME, or name it in a scenario as model: "
                    "{{layers: {}}}",
                    excerpt(name), excerpt(name)));
  }
  const bool recorded = name.ends_with(".pickle") || name.ends_with(".pkl");
  if (is_yaml(name) || (!recorded && path_exists(name))) {
    const bool onnx = name.ends_with(".onnx");
    if ((!name.ends_with(".json") && !onnx) || !path_exists(name)) return;
    if (!onnx && read_document(name).find("model") != nullptr) return;
    throw UserError(fmt::format("{} is no scenario; to run a model file, add --gpu NAME", name));
  }
  if (recorded) {
    throw UserError(fmt::format(
        "{} is a recorded snapshot, not a scenario; compare it with one that is simulated: "
        "tidemark diff SCENARIO {}",
        excerpt(name), excerpt(name)));
  }
  const std::string advice = advice_for_model(name);
  if (!advice.empty())
    throw UserError(fmt::format("{}: no such scenario file or model{}", excerpt(name), advice));
  if (is_preset(name)) {
    throw UserError(fmt::format(
        "'{}' is a model: add --gpu NAME (tidemark list gpus), or give a scenario file", name));
  }
  std::vector<std::string> models;
  for (const ModelPreset& preset : all_presets())
    models.push_back(preset.name);
  throw UserError(fmt::format("{}: no such scenario file or model{}", excerpt(name),
                              did_you_mean(name, models)));
}

}  // namespace
}  // namespace scenario_input_detail

bool is_scenario_file(const std::string& name) {
  return scenario_input_detail::is_yaml(name) && !scenario_input_detail::is_layer_file(name);
}

void ScenarioInput::add_options(CLI::App& command, bool many) {
  CLI::Option* positional =
      command
          .add_option("SCENARIO", names,
                      many ? "scenario files, or models together with --gpu"
                           : "a scenario file, or a model together with --gpu")
          ->required();
  if (!many) positional->expected(1);
  command
      .add_option("--gpu", gpu,
                  "run models on this GPU: SCENARIO is then a preset, a Hugging Face "
                  "config.json, an .onnx file or a cost graph")
      ->type_name("NAME");
  command
      .add_option("-s,--set", overrides,
                  "change a key of the scenario, as in training.micro_batch=4 or "
                  "policies.offload_activations.prefetch=2; repeatable")
      ->type_name("KEY=VALUE")
      ->expected(1)
      ->take_all()
      ->allow_extra_args(false);
  command.add_option("--plugin", plugins, "load policies from a shared library; repeatable")
      ->type_name("FILE")
      ->expected(1)
      ->take_all()
      ->allow_extra_args(false);
}

std::vector<Value> ScenarioInput::load() const {
  std::vector<Value> documents;
  for (const std::string& name : names) {
    if (gpu.empty()) {
      scenario_input_detail::check_scenario_name(name);
      documents.push_back(load_scenario(name));
    } else if (is_scenario_file(name)) {
      throw UserError(
          fmt::format("--gpu goes with a model, and {} is a scenario; use -s hardware={} instead",
                      excerpt(name), excerpt(gpu)));
    } else {
      documents.push_back(scenario_of_model(name, gpu));
    }
    for (const std::string& text : overrides)
      apply_override(documents.back(), parse_override(text));
  }
  return documents;
}

Scenario ScenarioInput::first_point(const Environment& environment) const {
  const Value document = load().front();
  return decode_scenario(point_document(document, sweep_points(document).front()), environment);
}

Environment ScenarioInput::environment(const Console& console) const {
  Environment environment = default_environment(console.program);
  if (!has_html_report()) environment.no_html_report = kNoHtmlReport;
  load_plugins(plugins, environment.policies);
  return environment;
}

int thread_count(int threads) {
  return threads > 0 ? threads
                     : static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
}

}  // namespace tidemark
