#include "cli/text/catalogue.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "graph/import/hf_config.hpp"
#include "graph/models/preset.hpp"
#include "hwprofiles/assumed_figures.hpp"
#include "plots/role_style.hpp"
#include "plots/table.hpp"
#include "policies/optimizers/catalogue.hpp"
#include "scenarios/read/elastic_options.hpp"
#include "scenarios/read/environment.hpp"
#include "scenarios/read/short_form.hpp"

namespace tidemark {
namespace catalogue_detail {
namespace {

std::string parameter_table(const std::vector<ParameterNote>& notes, bool colour) {
  if (notes.empty()) return "  no parameters\n";
  Table table({{"parameter"}, {"type"}, {"default"}, {"range"}}, 2);
  for (const ParameterNote& note : notes) {
    table.add_row({{note.name, -1, true},
                   {note.type},
                   {note.default_value.empty() ? "required" : note.default_value},
                   {note.range}});
  }
  return table.text(colour);
}

std::string heading(const std::string& name, std::string_view kind, std::string_view summary,
                    const Console& console) {
  return fmt::format("{} ({})\n  {}\n\n", bold(name, console.colour), kind, summary);
}

// Returns the parameters of presets; presets with the same parameters share a line.
std::string overridable_parameters() {
  std::vector<std::pair<std::string, std::string>> lines;  // presets, parameters
  for (const ModelPreset& preset : all_presets()) {
    std::string parameters;
    for (const ParameterNote& note : parameters_of(preset))
      parameters += (parameters.empty() ? "" : ", ") + note.name;
    const auto same = std::find_if(lines.begin(), lines.end(),
                                   [&](const auto& line) { return line.second == parameters; });
    if (same == lines.end()) {
      lines.emplace_back(preset.name, parameters);
    } else {
      same->first += ", " + preset.name;
    }
  }
  std::string text =
      "\nParameters that can be changed, as in model: {preset: gpt2, layers: 24}; `tidemark "
      "describe NAME` shows defaults:\n";
  for (const auto& [presets, parameters] : lines)
    text += fmt::format("  {}\n    {}\n", presets, parameters);
  std::vector<std::string_view> known;
  for (const HfArchitecture& architecture : hf_architectures())
    known.push_back(architecture.model_type);
  text += fmt::format(
      "\nOther models:\n  {{hf: config.json}}   model_type {}\n  {{layers: file.yaml}}   layers "
      "listed in YAML\n",
      fmt::join(known, ", "));
  return text;
}

std::vector<CatalogueEntry> model_entries() {
  std::vector<CatalogueEntry> entries;
  for (const ModelPreset& preset : all_presets()) {
    const std::string name = preset.name;
    const std::string summary = preset.summary;
    std::string group(preset.group);
    entries.push_back(
        {.name = name,
         .group = group,
         .summary = summary,
         .describe = [&preset](const Console& console) {
           return heading(preset.name, fmt::format("{} model", preset.group), preset.summary,
                          console) +
                  parameter_table(parameters_of(preset), console.colour) +
                  fmt::format(
                      "\n  model: {}\n  model: {{preset: {}, ...}}   to change parameters\n",
                      preset.name, preset.name);
         }});
  }
  return entries;
}

std::string describe_gpu(const DeviceProfile& profile, const Console& console) {
  Table table({{"figure"}, {"value", Align::kRight}, {"source"}}, 2);
  for (const Figure& figure : profile.figures) {
    table.add_row({{figure.path},
                   {figure.value, -1, true},
                   {figure.note.empty() ? figure.source : figure.source + "; " + figure.note}});
  }
  return heading(profile.name, "GPU", profile.description, console) +
         table.text(console.colour, console.terminal ? console.width : 0) +
         fmt::format(
             "\n  hardware: {}\n  hardware: {{gpu: {}, hbm: {{capacity: 40GiB}}}}   to change "
             "figures\n",
             profile.name, profile.name);
}

constexpr auto kGpuGroups = std::to_array<std::string_view>(
    {"data centre", "consumer and workstation", "AMD", "capacity and roofline only"});

std::string_view group_of(const DeviceProfile& profile) {
  if (is_roofline_only(profile)) return kGpuGroups[3];
  if (profile.description.starts_with("AMD")) return kGpuGroups[2];
  return kGpuGroups[profile.description.find("RTX") != std::string::npos ? 1 : 0];
}

constexpr std::string_view kGpuFooter =
    R"(
Names that people write work, too: h100, A100-80GB, rtx4090, "RTX 3090". A name that leaves the form
open means the SXM module. `tidemark init --device NAME` writes a profile to fill in.
)";

std::vector<CatalogueEntry> gpu_entries(const Environment& environment,
                                        const std::optional<std::string>& wanted) {
  std::vector<CatalogueEntry> entries;
  for (const std::string& name : gpu_names(environment)) {
    if (wanted && *wanted != name) {
      entries.push_back({.name = name});
      continue;
    }
    const DeviceProfile profile = load_device_profile(name, environment.profile_folders, nullptr,
                                                      {}, environment.profiles.get());
    const double bf16 =
        profile.matrix[static_cast<std::size_t>(matrix_type(profile, DType::kBFloat16))].peak.value;
    entries.push_back(
        {.name = name,
         .group = std::string(group_of(profile)),
         .summary = fmt::format(
             "{}: {}, {}, bf16 {}", profile.description, format_bytes(profile.hbm.capacity),
             format_bandwidth(profile.hbm.bandwidth), format_flops_rate(FlopsPerSecond{bf16})),
         .describe = [profile](const Console& console) { return describe_gpu(profile, console); }});
  }
  std::stable_sort(entries.begin(), entries.end(),
                   [](const CatalogueEntry& a, const CatalogueEntry& b) {
                     return std::find(kGpuGroups.begin(), kGpuGroups.end(), a.group) <
                            std::find(kGpuGroups.begin(), kGpuGroups.end(), b.group);
                   });
  return entries;
}

std::string describe_policy(const PolicyEntry& policy, const Console& console) {
  std::vector<ParameterNote> notes;
  static_cast<void>(policy.decode(Decoder::describing(notes), {}));
  std::string example = fmt::format("{}: {{", policy.name);
  std::string separator;
  for (const ParameterNote& note : notes) {
    if (note.default_value == "none") continue;
    example += fmt::format("{}{}: {}", separator, note.name,
                           note.default_value.empty() ? "..." : note.default_value);
    separator = ", ";
  }
  return heading(std::string(policy.name), fmt::format("{} policy", policy.kind), policy.summary,
                 console) +
         parameter_table(notes, console.colour) +
         fmt::format("\n  source: {}\n\n  policies:\n    - {}}}\n", policy.source, example);
}

// Describes the policy that makes a study of several steps, which no registry has.
CatalogueEntry elastic_entry() {
  const std::string name(kMemoryElastic);
  const std::string summary =
      "a micro-batch and accumulation for each step of a sequence, at one global batch; `tidemark "
      "run` compares it with the best setting that stays the same";
  return {.name = name, .group = "study", .summary = summary, .describe = [=](const Console& c) {
            return heading(name, "study of several steps", summary, c) +
                   parameter_table(elastic_parameters(), c.colour) +
                   fmt::format(
                       "\n  policies:\n    - {}: {{global_batch: 48, lengths: [1024, 128, 512], "
                       "capacity: [16GiB, 40GiB, 24GiB]}}\n",
                       name);
          }};
}

std::vector<CatalogueEntry> policy_entries(const Environment& environment) {
  std::vector<CatalogueEntry> entries;
  for (const PolicyEntry& entry : environment.policies.entries()) {
    entries.push_back(
        {.name = std::string(entry.name),
         .group = std::string(entry.kind),
         .summary = std::string(entry.summary),
         .describe = [entry](const Console& console) { return describe_policy(entry, console); }});
  }
  entries.push_back(elastic_entry());
  return entries;
}

// Describes an allocator by its traits and the parameters that its decoder reads.
std::string describe_allocator(const AllocatorEntry& entry, const Console& console) {
  std::vector<ParameterNote> notes;
  static_cast<void>(entry.decode(Decoder::describing(notes)));
  for (ParameterNote& note : notes) {
    for (const ParameterForm& form : entry.forms) {
      if (note.name == form.parameter) note.range = form.form;
    }
  }
  const std::string name(entry.traits.name);
  std::string text = heading(name, "allocator", std::string(entry.traits.summary), console);
  if (!notes.empty()) text += parameter_table(notes, console.colour) + '\n';
  return text + fmt::format("  allocator: {}\n", name);
}

std::vector<CatalogueEntry> allocator_entries(const Environment& environment) {
  std::vector<CatalogueEntry> entries;
  for (const AllocatorEntry& entry : environment.allocators.entries()) {
    entries.push_back({.name = std::string(entry.traits.name),
                       .group = {},
                       .summary = std::string(entry.traits.summary),
                       .describe = [entry](const Console& console) {
                         return describe_allocator(entry, console);
                       }});
  }
  return entries;
}

// Returns an optimizer with the defaults as the decoder reads them.
OptimizerSpec default_optimizer(const std::string& name) {
  Value training = mapping_value({});
  set_entry(training, "optimizer", {}, text_value(name, {}));
  return decode_optimizer(Decoder(training));
}

std::string describe_optimizer(const std::string& name) {
  const OptimizerSpec spec = default_optimizer(name);
  std::string options = fmt::format("name: {}, weight_decay: {}", name, spec.weight_decay);
  if (spec.momentum != 0) options += fmt::format(", momentum: {}", spec.momentum);
  std::vector<std::string_view> forms;
  for (const OptimizerImplementation form :
       {OptimizerImplementation::kLoop, OptimizerImplementation::kForeach,
        OptimizerImplementation::kFused}) {
    if (has_implementation(spec.kind, form)) forms.push_back(name_of(form));
  }
  return fmt::format(
      "  training: {{optimizer: {}}}\n"
      "  training: {{optimizer: {{{}, implementation: {}}}}}\n\n"
      "  implementation: {}\n"
      "  the default is fused with fp32 master weights, else the framework's, where it exists\n",
      name, options, forms.back(), fmt::join(forms, " | "));
}

std::vector<CatalogueEntry> optimizer_entries() {
  std::vector<CatalogueEntry> entries;
  for (const std::string_view name : optimizer_names()) {
    const std::string text(name);
    const std::string summary(summary_of(default_optimizer(text).kind));
    entries.push_back({.name = text,
                       .group = {},
                       .summary = summary,
                       .describe = [text, summary](const Console& console) {
                         return heading(text, "optimizer", summary, console) +
                                describe_optimizer(text);
                       }});
  }
  return entries;
}

}  // namespace
}  // namespace catalogue_detail

std::vector<Catalogue> catalogues(const Environment& environment,
                                  const std::optional<std::string>& wanted) {
  namespace detail = catalogue_detail;
  return {
      {"models", "model", &detail::model_entries, &detail::overridable_parameters},
      {"gpus", "GPU", [&environment, wanted] { return detail::gpu_entries(environment, wanted); },
       [] { return std::string(detail::kGpuFooter); }},
      {"policies", "policy", [&environment] { return detail::policy_entries(environment); }},
      {"allocators", "allocator",
       [&environment] { return detail::allocator_entries(environment); }},
      {"optimizers", "optimizer", &detail::optimizer_entries}};
}

}  // namespace tidemark
