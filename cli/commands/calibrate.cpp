#include "cli/commands/calibrate.hpp"

#include <algorithm>
#include <filesystem>
#include <thread>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/commands/option_values.hpp"
#include "cli/text/json_text.hpp"
#include "cli/text/measured_report.hpp"
#include "graph/core/errors.hpp"
#include "graph/core/paths.hpp"
#include "graph/core/piped_files.hpp"
#include "hwprofiles/calibrate/calibrate.hpp"
#include "plots/table.hpp"
#include "scenarios/measured/measured_files.hpp"
#include "scenarios/measured/measured_steps.hpp"
#include "scenarios/measured/nsight_ranges.hpp"
#include "scenarios/measured/profiler_trace.hpp"
#include "scenarios/read/environment.hpp"
#include "sim/memory/trace/text_file.hpp"
#include "tidemark/version.hpp"

namespace tidemark {
namespace calibrate_detail {
namespace {

namespace fs = std::filesystem;

// Returns how the new profile names the old one: a file by its path from the new one's folder.
std::string base_name(const std::string& profile, const std::string& output) {
  if (!is_file(profile)) return profile;
  const fs::path folder = absolute_path(output).parent_path();
  const fs::path relative = absolute_path(profile).lexically_relative(folder);
  const std::string name = relative.empty() ? profile : relative.string();
  return name.find('/') == std::string::npos ? "./" + name : name;
}

nlohmann::ordered_json summary_json(const ErrorSummary& errors) {
  return {{"n", errors.n}, {"mape", errors.mape}, {"median", errors.median}, {"bias", errors.bias}};
}

nlohmann::ordered_json document(const Calibration& calibration, const std::string& output) {
  nlohmann::ordered_json classes = nlohmann::ordered_json::array();
  for (const CalibratedClass& c : calibration.classes) {
    nlohmann::ordered_json figures = nlohmann::ordered_json::array();
    for (const FittedFigure& f : c.figures) {
      figures.push_back({{"figure", f.path},
                         {"before", f.before},
                         {"value", f.after},
                         {"low", f.low},
                         {"high", f.high},
                         {"at_bound", f.at_bound}});
    }
    classes.push_back({{"class", name_of(c.fit_class)},
                       {"rows", c.rows},
                       {"followed", c.followed},
                       {"figures", std::move(figures)},
                       {"fit", summary_json(c.fit)},
                       {"held_out_before", summary_json(c.before)},
                       {"held_out", summary_json(c.after)}});
  }
  nlohmann::ordered_json groups = nlohmann::ordered_json::array();
  for (const CalibratedGroup& g : calibration.groups) {
    groups.push_back({{"group", g.group},
                      {"held_out_before", summary_json(g.before)},
                      {"held_out", summary_json(g.after)}});
  }
  nlohmann::ordered_json other = nlohmann::ordered_json::object();
  for (const auto& [reason, count] : calibration.other)
    other[reason] = count;
  return {{"tidemark", kVersion},
          {"written", output},
          {"rows", calibration.rows},
          {"classes", classes},
          {"groups", groups},
          {"other_rows", other},
          {"refused_rows", refused_json(calibration.refused)}};
}

std::string report(const Calibration& calibration, const Console& console) {
  std::string text;
  Table figures({{"class"},
                 {"figure"},
                 {"before", Align::kRight},
                 {"now", Align::kRight},
                 {"95 % interval", Align::kRight, 1},
                 {""}});
  for (const CalibratedClass& c : calibration.classes) {
    bool first = true;
    for (const FittedFigure& f : c.figures) {
      figures.add_row({{first ? std::string(name_of(c.fit_class)) : ""},
                       {f.path},
                       {f.before},
                       {f.after},
                       {fmt::format("{} to {}", f.low, f.high)},
                       {c.followed == 0 ? "kept"
                        : f.at_bound    ? "at its bound"
                                        : ""}});
      first = false;
    }
  }
  std::string used;
  for (const CalibratedClass& c : calibration.classes) {
    used += fmt::format("{}{} {} of {}", used.empty() ? "" : ", ", name_of(c.fit_class), c.rows,
                        c.rows + c.after.n);
  }
  text += fmt::format("fitted to (rows of each class): {}\n\n", used);
  text += figures.text(console.colour, console.terminal ? console.width : 0);
  const bool kept =
      std::any_of(calibration.classes.begin(), calibration.classes.end(),
                  [](const CalibratedClass& c) { return c.followed == 0 && !c.figures.empty(); });
  if (kept)
    text += "kept: a fit to some of the rows predicts the others no better than the profile does\n";
  text += "\nerrors of the rows that were held out:\n";
  Table errors({{"group"},
                {"rows", Align::kRight},
                {"median before", Align::kRight},
                {"median", Align::kRight},
                {"mean", Align::kRight},
                {"bias", Align::kRight}},
               2);
  for (const CalibratedGroup& g : calibration.groups) {
    errors.add_row({{g.group},
                    {fmt::format("{}", g.after.n)},
                    {fmt::format("{:.1f} %", g.before.median * 100)},
                    {fmt::format("{:.1f} %", g.after.median * 100)},
                    {fmt::format("{:.1f} %", g.after.mape * 100)},
                    {fmt::format("{:+.1f} %", g.after.bias * 100)}});
  }
  text += errors.text(console.colour, console.terminal ? console.width : 0);
  return text + left_out(calibration.refused, calibration.other);
}

}  // namespace
}  // namespace calibrate_detail

void CalibrateCommand::attach(CLI::App& parent) {
  app = parent.add_subcommand(kName, "fit a GPU's figures to operators that you measured");
  app->footer(
      R"(The plainest table has the columns op,shape,dtype,device,seconds:
  matmul,4096x4096x1024,bf16,my-gpu,0.000142
  "conv_backward_data","32x64x56x56,128x3x3,1,1",fp16,my-gpu,0.00021
  softmax,4096x1024,fp32,my-gpu,0.00003
Those of DeepBench, NeuSight, LLMCompass and published attention rates are read as they are, and so is
a step that torch.profiler recorded with record_shapes=True (export_chrome_trace("step.json")), or Nsight
Systems below emit_nvtx(record_shapes=True) (nsys stats --report nvtx_gpu_proj_trace --format csv). Half
of the rows, by a hash of the operator, are not fitted to: the errors shown are theirs.

Examples:
  tidemark calibrate a100-sxm-80gb measured.csv -o my-a100.yaml
  tidemark calibrate a100-sxm-80gb step.json -o my-a100.yaml
  tidemark run gpt2 --gpu ./my-a100.yaml)");
  app->add_option("PROFILE", profile, "a GPU or the file of a profile")->required();
  app->add_option("MEASURED", tables,
                  "CSV files, traces of PyTorch's profiler (*.json), or folders of CSV files and "
                  "*.pt.trace.json")
      ->required()
      ->type_name("FILE");
  app->add_option("-o,--output", output, "file of the new profile, which extends the old one")
      ->required()
      ->type_name("FILE");
  app->add_option("--held-out", held_out, "share of the rows that only tell the error, 0 to 0.9")
      ->type_name("SHARE")
      ->capture_default_str();
  app->add_option("--seed", seed, "chooses other rows to hold out")
      ->type_name("N")
      ->capture_default_str();
  app->add_option("--dtype", dtype, "type of the operators of Nsight Systems' ranges")
      ->type_name(matrix_type_choice());
  app->add_flag("--json", json, "for scripts");
}

int CalibrateCommand::execute(const Console& console) const {
  const Environment environment = default_environment(console.program);
  const CalibrationOptions options{
      .held_out = number_option<double>("held-out", held_out, "a share from 0 to 0.9",
                                        [](double share) { return share >= 0 && share <= 0.9; }),
      .seed = number_option<std::uint64_t>("seed", seed, "a whole number",
                                           [](std::uint64_t /*seed*/) { return true; })};
  if (is_open_file_of_process(profile)) {
    throw UserError(
        "the new profile would extend an open file of this process, which is gone when it is read; "
        "give a file");
  }
  const DeviceProfile device = load_device_profile(profile, environment.profile_folders);
  const std::optional<DType> range_type = matrix_type_option("dtype", dtype);
  std::vector<MeasuredTable> read;
  const int threads = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  for (const std::string& file : measured_files(tables)) {
    if (is_profiler_trace(file)) {
      read.push_back(read_profiler_trace(file));
      continue;
    }
    const CsvTable table = read_csv_file(file);
    // A folder holds other tables, too; a file that was named must be one of operators.
    const bool named = std::find(tables.begin(), tables.end(), file) != tables.end();
    if (is_nsight_table(table)) {
      read.push_back(read_nsight_ranges(table, range_type));
    } else if (is_step_table(table)) {
      const MeasuredSteps steps = read_measured_steps(table, {.gpu = profile, .models_folder = {}});
      read.push_back(kernels_of(steps, environment, threads));
    } else if (named || is_operator_table(table)) {
      read.push_back(read_measured_operators(table));
    }
  }
  for (const std::string& file : measured_files(tables)) {
    if (identity_of_path(file) != identity_of_path(output)) continue;
    throw UserError(fmt::format("--output: {} is one of the tables of measurements", output));
  }
  if (is_file(profile) && identity_of_path(profile) == identity_of_path(output)) {
    throw UserError(
        fmt::format("--output: {} is the profile that is calibrated, which the new one "
                    "extends; write to another file",
                    output));
  }
  WholeFile written(output);
  const Calibration calibration = calibrate(device, read, gpu_names(environment), options);
  written.write(calibrated_profile(calibration, calibrate_detail::base_name(profile, output)));
  written.commit();
  if (json) {
    print(json_text(calibrate_detail::document(calibration, output)) + '\n');
  } else {
    print(calibrate_detail::report(calibration, console));
    print_note("wrote " + output);
  }
  return kExitFits;
}

}  // namespace tidemark
