#include "cli/commands/scenario_input.hpp"

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <thread>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "cli/commands/plugins.hpp"
#include "cli/output/results_sqlite.hpp"
#include "graph/core/errors.hpp"
#include "graph/core/paths.hpp"
#include "graph/core/piped_files.hpp"
#include "graph/core/printable.hpp"
#include "graph/import/layer_model.hpp"
#include "graph/models/preset.hpp"
#include "plots/report/html_report.hpp"
#include "scenarios/read/environment.hpp"
#include "scenarios/read/other_names.hpp"
#include "scenarios/read/short_form.hpp"
#include "tidemark/version.hpp"

namespace tidemark {
namespace scenario_input_detail {
namespace {

// Whether a file is a model described by its layers, which is no scenario.
bool is_layer_file(const std::string& name) {
  return is_yaml_name(name) && is_file(name) && is_layer_model(read_document(name));
}

// Throws UserError if a file is a model, which is no scenario.
void refuse_model_file(const std::string& name) {
  const bool json = name.ends_with(".json");
  if (!is_onnx_file(name)) {
    if (!json && !is_open_file_of_process(name)) return;
    const Value document = read_document(name);
    if (document.find("model") != nullptr || document.find("extends") != nullptr) return;
    if (!json && kind_of_model_document(document).empty()) return;
  }
  throw UserError(fmt::format("{} is no scenario; to run a model file, add --gpu NAME", name));
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
  if (is_yaml_name(name) || (!recorded && path_exists(name))) {
    if (is_file(name)) refuse_model_file(name);
    return;
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

// Returns a file's name without its folders: a picture may be passed on, and must not show them.
std::string without_folders(const std::string& name) {
  return is_open_file_of_process(name) ? name : std::filesystem::path(name).filename().string();
}

// Returns a word as a shell reads it.
std::string shell_word(const std::string& word) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./=:,+-%@";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string quoted_word = "'";
  for (const char c : word)
    quoted_word += c == '\'' ? "'\\''" : std::string(1, c);
  return quoted_word + "'";
}

}  // namespace
}  // namespace scenario_input_detail

bool is_scenario_file(const std::string& name) {
  return is_yaml_name(name) && !scenario_input_detail::is_layer_file(name);
}

void ScenarioInput::add_options(CLI::App& command, bool many, bool many_gpus) {
  CLI::Option* positional =
      command
          .add_option("SCENARIO", names,
                      many ? "scenario files, or models together with --gpu"
                           : "a scenario file, or a model together with --gpu")
          ->required();
  if (!many) positional->expected(1);
  const std::string on_gpu =
      "run models on this GPU: SCENARIO is then a preset, a Hugging Face config.json, an .onnx "
      "file "
      "or a cost graph";
  if (many_gpus) {
    command
        .add_option_function<std::vector<std::string>>(
            "--gpu",
            [this](const std::vector<std::string>& given) {
              gpu = given.front();
              other_gpus.assign(given.begin() + 1, given.end());
            },
            on_gpu + "; repeatable, one point for each")
        ->type_name("NAME")
        ->expected(1)
        ->take_all()
        ->allow_extra_args(false);
  } else {
    command.add_option("--gpu", gpu, on_gpu)->type_name("NAME");
  }
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
    if (!other_gpus.empty()) {
      std::vector<std::string> all{gpu};
      all.insert(all.end(), other_gpus.begin(), other_gpus.end());
      apply_override(documents.back(), parse_override(fmt::format("sweep.matrix.hardware=[{}]",
                                                                  fmt::join(all, ", "))));
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

std::string ScenarioInput::command_line(const std::string& command,
                                        const std::vector<std::string>& more) const {
  using scenario_input_detail::without_folders;
  std::vector<std::string> words{"tidemark", command};
  for (const std::string& name : names) {
    // A Hugging Face model is named by its folder.
    const std::filesystem::path path(name);
    const bool config = path.filename() == "config.json" && path.has_parent_path();
    words.push_back(config ? (path.parent_path().filename() / path.filename()).string()
                           : without_folders(name));
  }
  if (!gpu.empty()) words.insert(words.end(), {"--gpu", without_folders(gpu)});
  for (const std::string& other : other_gpus)
    words.insert(words.end(), {"--gpu", without_folders(other)});
  for (const std::string& text : overrides) {
    const std::size_t value = text.find('=') + 1;
    const bool path = value > 0 && text.substr(value).starts_with('/');
    words.insert(words.end(),
                 {"-s", path ? text.substr(0, value) + without_folders(text.substr(value)) : text});
  }
  for (const std::string& plugin : plugins)
    words.insert(words.end(), {"--plugin", without_folders(plugin)});
  words.insert(words.end(), more.begin(), more.end());
  for (std::string& word : words)
    word = scenario_input_detail::shell_word(printable(word));
  return fmt::format("{}", fmt::join(words, " "));
}

std::string ScenarioInput::reproduce(const std::string& command,
                                     const std::vector<std::string>& more) const {
  return fmt::format("reproduce (tidemark {}): {}", kVersion, command_line(command, more));
}

std::string ScenarioInput::point_command() const {
  if (names.size() != 1) return {};
  return command_line("run", {"-s", "sweep=null"});
}

Environment ScenarioInput::environment(const Console& console) const {
  Environment environment = default_environment(console.program);
  if (!has_html_report()) environment.missing_formats.emplace("html", kNoHtmlReport);
  if (!has_sqlite()) environment.missing_formats.emplace("sqlite", kNoSqlite);
  load_plugins(plugins, environment.policies);
  return environment;
}

int thread_count(int threads) {
  return threads > 0 ? threads
                     : static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
}

}  // namespace tidemark
