// tidemark import: turns another tool's training settings into a scenario.
#include <filesystem>
#include <system_error>
#include <utility>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/commands/command.hpp"
#include "graph/core/errors.hpp"
#include "graph/core/paths.hpp"
#include "graph/core/piped_files.hpp"
#include "graph/core/printable.hpp"
#include "scenarios/import/import_settings.hpp"
#include "scenarios/read/environment.hpp"
#include "scenarios/results/document_json.hpp"
#include "sim/memory/trace/text_file.hpp"
#include "tidemark/version.hpp"

namespace tidemark {
namespace import_detail {
namespace {

constexpr const char* kDefaultGpu = "h100-sxm-80gb";

// Makes the path of a model relative to the folder that the scenario is written to.
void shorten_path(Value& scenario, const std::string& output) {
  Value* model = scenario.find("model");
  for (Value::Entry& entry : model->entries) {
    if (!entry.value.is_scalar() || !entry.value.scalar.starts_with('/')) continue;
    std::error_code error;
    const std::filesystem::path folder =
        std::filesystem::absolute(output.empty() ? "x" : output, error)
            .lexically_normal()
            .parent_path();
    entry.value.scalar =
        std::filesystem::path(entry.value.scalar).lexically_proximate(folder).string();
  }
}

void write_file(const std::string& file, const std::string& text) {
  WholeFile written(file);
  written.write(text);
  written.commit();
}

nlohmann::ordered_json list_of(const std::vector<ImportedSetting>& settings,
                               const char* outcome_name) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const ImportedSetting& setting : settings) {
    nlohmann::ordered_json entry{{"key", setting.key}, {"value", setting.value}};
    if (setting.location.line > 0) {
      entry["line"] = setting.location.line;
      entry["column"] = setting.location.column;
    }
    if (!setting.outcome.empty()) entry[outcome_name] = setting.outcome;
    list.push_back(std::move(entry));
  }
  return list;
}

std::string document_of(const ImportedScenario& imported) {
  const nlohmann::ordered_json document{
      {"tidemark", kVersion},
      {"import",
       {{"format", imported.format},
        {"understood", list_of(imported.report.understood, "becomes")},
        {"without_effect", list_of(imported.report.without_effect, "reason")},
        {"not_understood", list_of(imported.report.not_understood, "reason")}}},
      {"scenario", to_json(imported.scenario)}};
  return document.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + '\n';
}

// Lists on stderr what does not come over.
void warn_of_rest(const ImportedScenario& imported, const std::string& file,
                  const Console& console) {
  for (const ImportedSetting& setting : imported.report.not_understood) {
    const std::string place = setting.location.line > 0
                                  ? fmt::format("{}:{}:{}: ", setting.location.file,
                                                setting.location.line, setting.location.column)
                                  : fmt::format("{}: ", file);
    print_warning(console, printable(fmt::format("{}{}: not understood: {}", place, setting.key,
                                                 setting.outcome)));
  }
}

}  // namespace
}  // namespace import_detail

void ImportCommand::attach(CLI::App& parent) {
  app = parent.add_subcommand(
      kName, "turn settings of DeepSpeed, the Trainer, Accelerate or axolotl into a scenario");
  app->footer(
      R"(What the file is, its keys say. What it says and the scenario does not is listed on stderr and
in the scenario's comments; --json lists both.

Examples:
  tidemark import ds_config.json --model gpt2-xl -o scenario.yaml
  tidemark import training_args.json --model ./config.json --gpu rtx-4090
  tidemark import accelerate.yaml --model llama-3-8b --json
  tidemark import axolotl.yaml --model llama-3-8b && tidemark fit scenario.yaml

Exit codes: 0 imported; 2 bad input; 3 internal error.)");
  app->add_option("FILE", file,
                  "DeepSpeed's JSON, TrainingArguments, Accelerate's or axolotl's YAML")
      ->required();
  app->add_option(
         "--model", model,
         "a preset (tidemark list models), a Hugging Face config.json or another model file")
      ->required()
      ->type_name("MODEL");
  app->add_option("--gpu", gpu, fmt::format("the GPU (default: {})", import_detail::kDefaultGpu))
      ->type_name("NAME");
  app->add_option("--count", count, "number of GPUs (default: as the file says, or 1)")
      ->check(CLI::Range(1, 1 << 20))
      ->type_name("N");
  app->add_option("-o,--output", output, "the scenario to write (default: standard output)")
      ->type_name("FILE");
  app->add_flag("--json", json, "print what became of each setting, and the scenario, as JSON");
}

int ImportCommand::execute(const Console& console) const {
  for (const auto& [option, name] : {std::pair("--model", &model), std::pair("--gpu", &gpu)}) {
    if (!is_open_file_of_process(*name)) continue;
    throw UserError(fmt::format(
        "{}: the scenario would name an open file of this process, which is gone when it is run; "
        "give a file",
        option));
  }
  if (!output.empty() && identity_of_path(file) == identity_of_path(output))
    throw UserError(fmt::format("--output: {} is the file that is imported", output));
  const Environment environment = default_environment(console.program);
  const Value document = read_document(file);
  ImportedScenario imported = import_settings(
      document,
      {.model = model, .gpu = gpu.empty() ? import_detail::kDefaultGpu : gpu, .count = count},
      environment);
  import_detail::shorten_path(imported.scenario, output);
  const std::string name =
      is_open_file_of_process(file) ? file : std::filesystem::path(file).filename().string();
  std::string text = scenario_yaml(imported, name);
  if (gpu.empty())
    text = fmt::format("# No GPU was given: --gpu NAME, or `hardware` below.\n{}", text);
  if (!output.empty()) import_detail::write_file(output, text);
  import_detail::warn_of_rest(imported, file, console);
  if (json) {
    print(import_detail::document_of(imported));
  } else if (output.empty()) {
    print(text);
  } else {
    print(
        fmt::format("wrote {0} ({2}): {1} settings understood, {3} without effect, {4} not "
                    "understood; next: tidemark run {0}\n",
                    output, imported.report.understood.size(), imported.format,
                    imported.report.without_effect.size(), imported.report.not_understood.size()));
  }
  return kExitFits;
}

}  // namespace tidemark
