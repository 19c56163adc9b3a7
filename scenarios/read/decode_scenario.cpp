// Reads and checks a whole scenario.
#include <algorithm>
#include <array>
#include <filesystem>
#include <utility>

#include <fmt/format.h>

#include "graph/core/piped_files.hpp"
#include "graph/core/scalars.hpp"
#include "hwprofiles/networks.hpp"
#include "scenarios/read/decode_parts.hpp"
#include "scenarios/read/environment.hpp"
#include "scenarios/read/goal.hpp"
#include "scenarios/read/other_names.hpp"
#include "scenarios/read/published.hpp"
#include "scenarios/read/scenario.hpp"
#include "scenarios/read/short_form.hpp"
#include "scenarios/read/turns.hpp"

namespace tidemark {
namespace decode_scenario_detail {
namespace {

constexpr int kFormatVersion = 1;
constexpr std::array<std::string_view, 14> kScenarioKeys{
    "version",        "name",     "extends", "model",  "hardware", "training",  "allocator",
    "host_allocator", "policies", "sweep",   "report", "compare",  "published", "goal"};

constexpr std::array<std::string_view, 8> kReportFormats{
    "csv", "json", "html", "chrome_trace", "torch_snapshot", "svg", "perfetto", "sqlite"};

// Accepts the known keys and no others: a misspelt key is reported before the key that it leaves
// absent.
void check_keys(const Decoder& scenario) {
  for (const std::string_view key : kScenarioKeys)
    static_cast<void>(scenario.has(key));
  scenario.finish();
  const auto version = scenario.optional<std::int64_t>("version", kFormatVersion);
  if (version != kFormatVersion) {
    scenario.fail_at("version", fmt::format("expected {}, the version of the format that this "
                                            "Tidemark reads, found {}",
                                            kFormatVersion, version));
  }
  const auto refuse = [&](std::string_view key, const std::string& problem) {
    if (!scenario.has(key)) return;
    throw UserError(location_of_key(scenario.value(), key), std::string(key), problem);
  };
  refuse("extends", "'extends' works in a scenario file only");
}

// Returns the name of the file, or of the model where there is none.
std::string decode_name(const Decoder& scenario, const ModelReference& model) {
  auto name = scenario.optional<std::string>("name", "");
  if (!name.empty()) return name;
  const std::string& file = scenario.location().file;
  if (file.empty() || is_open_file_of_process(file)) return model_title(model);
  return std::filesystem::path(file).stem().string();
}

// Rethrows an error of a profile where the scenario names or overrides it. `path` is that of the
// name.
[[noreturn]] void rethrow_for_scenario(const UserError& error, const Location& named_at,
                                       const std::string& path) {
  constexpr std::string_view kFigure = ".value";  // a profile writes it out, a scenario does not
  const bool about_the_name = error.path().empty() && error.location().file == named_at.file;
  if (about_the_name) throw UserError(named_at, path, error.problem());
  // Without a line the file of the profile could not be read.
  if (error.location().line == 0) throw UserError(named_at, path, error.what());
  std::string key = error.path();
  if (key.ends_with(kFigure)) key.resize(key.size() - kFigure.size());
  for (const auto& [figure, written] : {std::pair{"hardware.host.gpus", "hardware.node"},
                                        std::pair{"hardware.links.network", "hardware.network"}}) {
    if (key.starts_with(figure)) key.replace(0, std::string_view(figure).size(), written);
  }
  std::string problem = error.problem();
  const std::vector<std::string> own{"hardware.gpu", "hardware.count", "hardware.node",
                                     "hardware.network"};
  if (problem == "unknown key" && nearest_word(key, own)) {
    problem += fmt::format("; did you mean '{}'?", nearest_word(key, own)->substr(9));
  }
  throw UserError(error.location(), key, problem);
}

// Lays `figure` into a mapping at GROUP.KEY.
void lay_into(Value& mapping, std::string_view group, std::string_view key, const Value& figure) {
  const auto child = [&](Value& parent, std::string_view name) -> Value& {
    if (Value* present = parent.find(name)) return *present;
    Value empty;
    empty.kind = Value::Kind::kMapping;
    empty.location = figure.location;
    parent.entries.push_back(
        {.key = std::string(name), .location = figure.location, .value = std::move(empty)});
    return parent.entries.back().value;
  };
  child(child(mapping, group), key) = figure;
}

// `node` and `network` are figures of the profile that a scenario names without their groups.
void lay_out_hosts(const Decoder& hardware, const Environment& environment, Value& overrides) {
  const Value* node = hardware.value().find("node");
  if (node != nullptr && !node->is_null()) {
    static_cast<void>(hardware.required<int>("node", between(1, kMaxCount)));
    lay_into(overrides, "host", "gpus", *node);
  }
  const Value* network = hardware.value().find("network");
  if (network == nullptr || network->is_null()) return;
  lay_into(overrides, "links", "network",
           network->is_scalar() ? load_network(network->scalar, environment.profile_folders,
                                               network->location, "hardware.network")
                                : *network);
}

// Loads the profile with the changes next to `gpu` and `count`.
DeviceProfile load_profile(const Decoder& hardware, const std::string& path,
                           const Environment& environment) {
  Value overrides = hardware.value();
  std::erase_if(overrides.entries, [](const Value::Entry& entry) {
    return entry.key == "gpu" || entry.key == "count" || entry.key == "node" ||
           entry.key == "network" || entry.value.is_null();
  });
  lay_out_hosts(hardware, environment, overrides);
  const auto gpu = hardware.required<std::string>("gpu");
  const Location named_at = hardware.value().find("gpu")->location;
  if (gpu.empty()) {
    throw UserError(named_at, path, "expected the name of a GPU, found an empty text");
  }
  try {
    return load_device_profile(gpu, environment.profile_folders,
                               overrides.entries.empty() ? nullptr : &overrides, named_at,
                               environment.profiles.get());
  } catch (const UserError& error) {
    rethrow_for_scenario(error, named_at, path);
  }
}

void decode_hardware(const Decoder& scenario, const Environment& environment, Scenario& result) {
  const Value* given = scenario.value().find("hardware");
  if (given == nullptr || given->is_null()) {
    scenario.fail_at("hardware", fmt::format("required key is missing; expected a GPU: {}",
                                             fmt::join(gpu_names(environment), ", ")));
  }
  const bool is_word = given->is_scalar();
  const Value mapping = is_word ? long_form("hardware", *given) : *given;
  if (!mapping.is_mapping()) {
    scenario.fail_at("hardware",
                     fmt::format("expected a GPU or a mapping, found {}", found(*given)));
  }
  const Decoder hardware(mapping, "hardware");
  result.device = load_profile(hardware, is_word ? "hardware" : "hardware.gpu", environment);
  const int count = hardware.optional<int>("count", 1, between(1, kMaxCount));
  if (count > 1 && result.model.kind == ModelKind::kCostGraph) {
    hardware.fail_at("count",
                     "a cost graph does not say which gradients several GPUs would reduce; leave "
                     "count out");
  }
  decode_mesh(scenario, environment, result);
}

// Throws for a word such as torch-2.4 where the name of an allocator belongs.
void refuse_version(const Decoder& allocator, const AllocatorRegistry& allocators) {
  const Value* kind = allocator.value().find("kind");
  if (kind == nullptr || !kind->is_scalar()) return;
  for (const AllocatorEntry& entry : allocators.entries()) {
    const AllocatorTraits& known = entry.traits;
    if (known.version.empty() || !kind->scalar.starts_with(fmt::format("{}-", known.name)))
      continue;
    allocator.fail_at(
        "kind", fmt::format("{} names a version; write {{kind: {}, version: {}}}",
                            tidemark::quoted_excerpt(kind->scalar), known.name, known.version));
  }
}

// Expandable segments came with PyTorch 2.1.
void check_segments(const Decoder& allocator, const AllocatorModel& model,
                    const FrameworkRules& framework) {
  if (framework.has_expandable_segments || !model.expands_segments()) return;
  allocator.fail_at(
      allocator.has("expandable_segments") ? "expandable_segments" : "conf",
      fmt::format("{} has no expandable segments, which came with PyTorch 2.1", framework.name));
}

std::unique_ptr<const AllocatorModel> decode_allocator(const Decoder& scenario,
                                                       const AllocatorRegistry& allocators,
                                                       const FrameworkRules& framework) {
  const Value* given = scenario.value().find("allocator");
  const std::string_view standard = allocators.default_entry().traits.name;
  if (given == nullptr || given->is_null()) return allocators.default_entry().decode(Decoder());
  const Value mapping = given->is_scalar() ? long_form("allocator", *given) : *given;
  const Decoder allocator(mapping, "allocator");
  refuse_version(allocator, allocators);
  const std::string word = allocator.optional_word("kind", allocators.names(), standard);
  std::unique_ptr<const AllocatorModel> model = allocators.find(word)->decode(allocator);
  allocator.finish();
  check_segments(allocator, *model, framework);
  return model;
}

// Decodes the allocator of page-locked memory; its key is separate from `allocator`, which is the
// device's.
void decode_host_allocator(const Decoder& scenario, Scenario& result) {
  static constexpr std::array<std::string_view, 3> kKinds{"exact", "pool", "torch"};
  const std::string word = scenario.optional_word("host_allocator", kKinds, "exact");
  result.page_locked = word == "torch"  ? PageLockedMemory::kPowerOfTwo
                       : word == "pool" ? PageLockedMemory::kPool
                                        : PageLockedMemory::kExact;
}

ReportOptions decode_report(const Decoder& scenario, const AllocatorTraits& allocator,
                            const Environment& environment) {
  const Decoder report = scenario.optional_child("report");
  ReportOptions options{.directory = report.optional<std::string>("dir", ""),
                        .formats = report.list<std::string>("formats")};
  const std::vector<std::string> words(kReportFormats.begin(), kReportFormats.end());
  for (std::size_t i = 0; i < options.formats.size(); ++i) {
    const std::string& format = options.formats[i];
    if (format == "torch_snapshot" && !allocator.keeps_torch_history) {
      throw UserError(report.value().find("formats")->items[i].location,
                      fmt::format("report.formats[{}]", i),
                      fmt::format("a torch_snapshot shows PyTorch's allocator, but `allocator` is "
                                  "{}; use torch, or leave the format out",
                                  allocator.name));
    }
    if (const auto missing = environment.missing_formats.find(format);
        missing != environment.missing_formats.end()) {
      throw UserError(report.value().find("formats")->items[i].location,
                      fmt::format("report.formats[{}]", i), missing->second);
    }
    if (std::find(kReportFormats.begin(), kReportFormats.end(), format) != kReportFormats.end())
      continue;
    std::string hint = did_you_mean(format, words);
    if (format == "pdf") hint = "; svg writes each picture as PDF, too";
    if (hint.empty()) hint = fmt::format("; formats: {}", fmt::join(words, ", "));
    throw UserError(report.value().find("formats")->items[i].location,
                    fmt::format("report.formats[{}]", i),
                    fmt::format("there is no format {}{}", tidemark::quoted_excerpt(format), hint));
  }
  report.finish();
  if (options.formats.empty()) options.formats = {"csv", "json"};
  return options;
}

}  // namespace
}  // namespace decode_scenario_detail

std::span<const std::string_view> scenario_keys() {
  return decode_scenario_detail::kScenarioKeys;
}

std::span<const std::string_view> report_format_words() {
  return decode_scenario_detail::kReportFormats;
}

Scenario decode_scenario(const Value& document, const Environment& environment) {
  check_other_names(document);
  const Decoder scenario(document);
  decode_scenario_detail::check_keys(scenario);
  Scenario result;
  result.model = decode_model(scenario);
  result.source = model_source(result.model);
  result.name = decode_scenario_detail::decode_name(scenario, result.model);
  decode_scenario_detail::decode_hardware(scenario, environment, result);
  static_cast<void>(
      decode_goal(scenario.value(), result.device.figures));  // reports mistakes in it
  result.training = decode_training(scenario, result.model, result.device,
                                    result.mesh.size(MeshDimension::kData));
  result.device = for_framework(std::move(result.device), result.training.framework->era);
  result.allocator = decode_scenario_detail::decode_allocator(scenario, environment.allocators,
                                                              *result.training.framework);
  decode_scenario_detail::decode_host_allocator(scenario, result);
  decode_policies(scenario, environment, result);
  decode_turns(document, environment, result);
  result.may_detach = may_detach(result);
  result.training_key = training_key(document, result);
  result.run_key = run_key(document, result);
  result.report =
      decode_scenario_detail::decode_report(scenario, result.allocator->traits(), environment);
  if (scenario.has("published")) require_published_list(scenario.value());
  return result;
}

Scenario trial_scenario(const Value& document, const Environment& environment) {
  Scenario scenario = decode_scenario(document, environment);
  limit_searches(scenario, kTrialSearch);
  return scenario;
}

}  // namespace tidemark
