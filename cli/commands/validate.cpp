#include <algorithm>
#include <cmath>
#include <optional>
#include <thread>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/commands/calibrate.hpp"
#include "cli/commands/option_values.hpp"
#include "cli/output/output_folder.hpp"
#include "cli/output/validation_files.hpp"
#include "cli/text/json_text.hpp"
#include "cli/text/measured_report.hpp"
#include "graph/core/errors.hpp"
#include "hwprofiles/calibrate/validated.hpp"
#include "plots/table.hpp"
#include "scenarios/measured/measured_files.hpp"
#include "scenarios/measured/measured_steps.hpp"
#include "scenarios/measured/nsight_ranges.hpp"
#include "scenarios/measured/profiler_trace.hpp"
#include "scenarios/measured/published_figures.hpp"
#include "scenarios/read/environment.hpp"
#include "tidemark/version.hpp"

namespace tidemark {
namespace validate_detail {
namespace {

nlohmann::ordered_json groups_json(const std::vector<ValidatedGroup>& groups) {
  nlohmann::ordered_json array = nlohmann::ordered_json::array();
  for (const ValidatedGroup& g : groups) {
    nlohmann::ordered_json group{{"group", g.group}};
    if (!g.metric.empty()) group["metric"] = g.metric;
    group["n"] = g.errors.n;
    group["mape"] = g.errors.mape;
    group["median"] = g.errors.median;
    group["bias"] = g.errors.bias;
    array.push_back(std::move(group));
  }
  return array;
}

nlohmann::ordered_json document(const Validation& validation) {
  nlohmann::ordered_json other = nlohmann::ordered_json::object();
  for (const auto& [reason, count] : validation.other)
    other[reason] = count;
  return {{"tidemark", kVersion},
          {"groups", groups_json(groups_of(validation.rows))},
          {"overall", groups_json(overall_groups_of(validation.rows))},
          {"other_rows", std::move(other)},
          {"refused_rows", refused_json(validation.refused)}};
}

std::string report(const Validation& validation, std::size_t top, const Console& console) {
  const std::size_t width = console.terminal ? console.width : 0;
  Table groups({{"group"},
                {"metric"},
                {"rows", Align::kRight},
                {"MAPE", Align::kRight},
                {"median", Align::kRight},
                {"bias", Align::kRight}});
  const auto add = [&](const std::vector<ValidatedGroup>& of, std::string_view over) {
    for (const ValidatedGroup& g : of) {
      groups.add_row({{fmt::format("{}{}", over, g.group)},
                      {g.metric},
                      {fmt::format("{}", g.errors.n)},
                      {fmt::format("{:.1f} %", g.errors.mape * 100)},
                      {fmt::format("{:.1f} %", g.errors.median * 100)},
                      {fmt::format("{:+.1f} %", g.errors.bias * 100)}});
    }
  };
  add(groups_of(validation.rows), "");
  add(overall_groups_of(validation.rows), "all ");
  std::string text = groups.text(console.colour, width);
  std::vector<const ValidatedRow*> worst;
  for (const ValidatedRow& row : validation.rows)
    worst.push_back(&row);
  const std::size_t shown = std::min(top, worst.size());
  std::partial_sort(worst.begin(), worst.begin() + static_cast<std::ptrdiff_t>(shown), worst.end(),
                    [](const ValidatedRow* a, const ValidatedRow* b) {
                      return distance_of(*a) > distance_of(*b);
                    });
  if (shown > 0) {
    text += "\nfarthest off:\n";
    Table rows({{"row"},
                {"predicted", Align::kRight},
                {"measured", Align::kRight},
                {"error", Align::kRight},
                {"group", Align::kLeft, 1},
                {"line", Align::kLeft, 2}},
               2);
    for (std::size_t i = 0; i < shown; ++i) {
      const ValidatedRow& row = *worst[i];
      rows.add_row({{row.text},
                    {value_text(row, row.predicted)},
                    {value_text(row, row.measured)},
                    {fmt::format("{:+.0f} %", row.error() * 100)},
                    {row.group},
                    {fmt::format("{}:{}", row.file.substr(row.file.rfind('/') + 1), row.line)}});
    }
    text += rows.text(console.colour, width);
  }
  return text + left_out(validation.refused, validation.other);
}

}  // namespace
}  // namespace validate_detail

void ValidateCommand::attach(CLI::App& parent) {
  app = parent.add_subcommand(kName, "hold predictions against what was measured");
  app->footer(
      R"(Reads the tables and traces that calibrate reads; each row is priced on its device's profile, or with --gpu
those of that chip on the one given. Errors are predicted / measured - 1. Tables of training steps are simulated: timm's
benchmark (its models as NAME.onnx) and published steps with machine-readable columns; for a check
such as fits, the error is the share of the checks that do not hold. Scenarios are held against the
figures that they list under `published`.

Examples:
  tidemark validate measured.csv
  tidemark validate scenarios/papers
  tidemark validate measured.csv --gpu ./my-a100.yaml --json)");
  app->add_option(
         "MEASURED", tables,
         "CSV files, traces of PyTorch's profiler (*.json), scenarios (*.yaml), or folders "
         "of CSV files, *.pt.trace.json and scenarios")
      ->required()
      ->type_name("FILE");
  app->add_option("--gpu", profile, "a GPU or the file of a profile; default: each row's own");
  app->add_option("--models", models,
                  "folder of timm's models as NAME.onnx (default: "
                  "models/onnx/torchvision beside or above the table)")
      ->type_name("DIR");
  app->add_option("-o,--output", folder, "folder for rows.csv, validate.svg and validate.html")
      ->type_name("DIR");
  app->add_option("-j,--threads", threads, "steps simulated at the same time (default: all cores)");
  app->add_option("--top", top, "how many of the worst rows to show")->capture_default_str();
  app->add_option("--dtype", dtype, "type of the operators of Nsight Systems' ranges")
      ->type_name(matrix_type_choice());
  app->add_flag("--json", json, "for scripts");
}

int ValidateCommand::execute(const Console& console) const {
  const Environment environment = default_environment(console.program);
  std::optional<DeviceProfile> device;
  if (!profile.empty()) device = load_device_profile(profile, environment.profile_folders);
  const int workers =
      threads > 0 ? threads : static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  const std::optional<DType> range_type = matrix_type_option("dtype", dtype);
  std::optional<OutputFolder> written;
  if (!folder.empty()) written.emplace(folder);
  Validation validation;
  for (const std::string& file : measured_files(tables, true)) {
    const bool named = std::find(tables.begin(), tables.end(), file) != tables.end();
    if (is_scenario_to_validate(file)) {
      if (named && !profile.empty())
        throw UserError("--gpu: the scenario names its own; give tables alone, or leave it out");
      validate_published(file, named, environment, workers, validation);
      continue;
    }
    if (is_profiler_trace(file)) {
      validate_operators(read_profiler_trace(file), device ? &*device : nullptr,
                         environment.profile_folders, *environment.profiles, validation);
      continue;
    }
    const CsvTable table = read_csv_file(file);
    if (is_nsight_table(table)) {
      validate_operators(read_nsight_ranges(table, range_type), device ? &*device : nullptr,
                         environment.profile_folders, *environment.profiles, validation);
      continue;
    }
    if (is_operator_table(table)) {
      validate_operators(read_measured_operators(table), device ? &*device : nullptr,
                         environment.profile_folders, *environment.profiles, validation);
      continue;
    }
    if (is_step_table(table)) {
      validate_steps(read_measured_steps(table, {.gpu = profile, .models_folder = models}),
                     environment, workers, validation);
      continue;
    }
    if (named) static_cast<void>(read_measured_operators(table));  // says what it expects
    validation.other["tables of other measurements"] += table.rows.size();
  }
  if (written) {
    add_validation_files(*written, validation);
    written->commit();
    for (const std::string& file : written->written())
      print_note("wrote " + file);
  }
  print(json ? json_text(validate_detail::document(validation)) + '\n'
             : validate_detail::report(validation, top, console));
  // Where no row could be used, nothing was validated.
  return validation.rows.empty() ? kExitBadInput : kExitFits;
}

}  // namespace tidemark
