#include "scenarios/import/import_settings.hpp"

#include <algorithm>
#include <array>
#include <functional>

#include <fmt/format.h>

#include "graph/core/document.hpp"
#include "scenarios/import/draft.hpp"
#include "scenarios/read/axolotl_models.hpp"
#include "scenarios/read/liger_models.hpp"
#include "scenarios/read/short_form.hpp"
#include "sim/step/build_training.hpp"

namespace tidemark {
namespace import_settings_detail {
namespace {

struct Format {
  std::string_view title;
  // Keys that only this tool's files have.
  std::span<const std::string_view> keys;
  void (*import)(Settings&, ScenarioDraft&);
};

constexpr auto kDeepSpeedKeys = std::to_array<std::string_view>(
    {"zero_optimization", "train_micro_batch_size_per_gpu", "train_batch_size", "gradient_clipping",
     "wall_clock_breakdown", "steps_per_print", "zero_allow_untested_optimizer"});
constexpr auto kAccelerateKeys = std::to_array<std::string_view>(
    {"compute_environment", "distributed_type", "num_processes", "mixed_precision", "machine_rank",
     "downcast_bf16", "deepspeed_config", "megatron_lm_config", "num_machines"});
constexpr auto kAxolotlKeys = std::to_array<std::string_view>(
    {"base_model", "sequence_len", "micro_batch_size", "adapter", "datasets", "lora_r",
     "sample_packing", "load_in_4bit", "load_in_8bit", "flash_attention", "val_set_size"});
constexpr auto kTrainerKeys = std::to_array<std::string_view>(
    {"per_device_train_batch_size", "output_dir", "optim", "num_train_epochs", "max_grad_norm",
     "gradient_checkpointing", "per_device_eval_batch_size", "logging_steps", "save_steps",
     "per_gpu_train_batch_size", "use_peft"});
constexpr auto kFormats =
    std::to_array<Format>({{"axolotl configuration", kAxolotlKeys, import_axolotl},
                           {"DeepSpeed configuration", kDeepSpeedKeys, import_deepspeed},
                           {"Accelerate configuration", kAccelerateKeys, import_accelerate},
                           {"TrainingArguments", kTrainerKeys, import_training_arguments}});

// Returns the format with most keys of its own in the file.
const Format& format_of(const Value& file) {
  const Format* best = nullptr;
  std::ptrdiff_t most = 0;
  for (const Format& format : kFormats) {
    const std::ptrdiff_t found =
        std::count_if(format.keys.begin(), format.keys.end(),
                      [&](std::string_view key) { return file.find(key) != nullptr; });
    if (found > most) {
      most = found;
      best = &format;
    }
  }
  if (best != nullptr) return *best;
  if (file.find("model") != nullptr && file.find("hardware") != nullptr) {
    throw UserError(file.location, "", "is a scenario already: tidemark run takes it as it is");
  }
  throw UserError(file.location, "",
                  "none of the keys is one of a DeepSpeed configuration (zero_optimization), of "
                  "TrainingArguments (per_device_train_batch_size), of an Accelerate configuration "
                  "(distributed_type) or of an axolotl configuration (base_model)");
}

// Returns the hidden size that a Hugging Face configuration states; 0 where it does not.
std::int64_t hidden_size_of(const Value& model) {
  const Value* path = model.find("hf");
  if (path == nullptr) return 0;
  const Value config = read_document(path->scalar);
  for (const char* key : {"hidden_size", "n_embd", "d_model"}) {
    if (config.find(key) != nullptr) return Decoder(config).optional<std::int64_t>(key, 0);
  }
  return 0;
}

// Returns the list of policies that a scenario has.
Value list_of(const Value& policies) {
  Value list;
  list.kind = Value::Kind::kSequence;
  list.location = policies.location;
  for (const Value::Entry& entry : policies.entries) {
    Value item = mapping_value(entry.location);
    set_entry(item, entry.key, entry.location, entry.value);
    list.items.push_back(std::move(item));
  }
  return list;
}

bool is_same(const Location& a, const Location& b) {
  return a.line > 0 && a.line == b.line && a.column == b.column && a.file == b.file;
}

// Whether a value, or a part of it, stands at a place.
bool stands_at(const Value& value, const Location& place) {
  return is_same(value.location, place) ||
         std::any_of(value.entries.begin(), value.entries.end(),
                     [&](const Value::Entry& entry) {
                       return is_same(entry.location, place) || stands_at(entry.value, place);
                     }) ||
         std::any_of(value.items.begin(), value.items.end(),
                     [&](const Value& item) { return stands_at(item, place); });
}

// The settings that were left out of a scenario.
struct LeftOut {
  std::string key;  // "policies.zero.overlap_comm"
  Value value;
};

// Removes from a mapping the innermost entry at a place of the imported file.
std::optional<LeftOut> remove_from(Value& mapping, const std::string& path, const Location& place) {
  for (auto entry = mapping.entries.begin(); entry != mapping.entries.end(); ++entry) {
    const std::string key = path.empty() ? entry->key : path + '.' + entry->key;
    const bool whole = is_same(entry->location, place) || is_same(entry->value.location, place);
    if (!whole && !stands_at(entry->value, place)) continue;
    if (!whole && entry->value.is_mapping()) return remove_from(entry->value, key, place);
    LeftOut left{key, entry->value};
    mapping.entries.erase(entry);
    return left;
  }
  return std::nullopt;
}

// Removes what a refusal is about: a policy by its name, else a key of a policy or of `training`.
std::optional<LeftOut> remove_refused(Value& scenario, const UserError& refusal) {
  constexpr std::string_view kPolicies = "policies";
  Value* policies = scenario.find(kPolicies);
  if (policies != nullptr && refusal.path().starts_with(kPolicies)) {
    for (auto item = policies->items.begin(); item != policies->items.end(); ++item) {
      Value::Entry& policy = item->entries.front();
      const std::string path = fmt::format("policies.{}", policy.key);
      const bool named = is_same(policy.location, refusal.location()) || refusal.path() == path;
      if (!named && policy.value.is_mapping() &&
          refusal.path().starts_with(fmt::format("{}.", path))) {
        // A key of the policy: the policy itself may go without it.
        const std::string key = refusal.path().substr(path.size() + 1);
        const std::string first = key.substr(0, key.find_first_of(".["));
        if (const Value* found = policy.value.find(first)) {
          LeftOut left{fmt::format("{}.{}", path, first), *found};
          std::erase_if(policy.value.entries,
                        [&](const Value::Entry& entry) { return entry.key == first; });
          return left;
        }
      }
      if (!named && !refusal.path().starts_with(path)) continue;
      LeftOut left{path, policy.value};
      policies->items.erase(item);
      return left;
    }
  }
  for (const char* part : {"training", "hardware"}) {
    Value* mapping = scenario.find(part);
    if (mapping == nullptr || !refusal.path().starts_with(part)) continue;
    const std::string key =
        refusal.path().substr(std::min(refusal.path().size(), std::string_view(part).size() + 1));
    const std::string first = key.substr(0, key.find_first_of(".["));
    if (const Value* found = mapping->find(first)) {
      LeftOut left{fmt::format("{}.{}", part, first), *found};
      std::erase_if(mapping->entries, [&](const Value::Entry& e) { return e.key == first; });
      return left;
    }
    return remove_from(*mapping, part, refusal.location());
  }
  return std::nullopt;
}

// Returns a refusal's reason as a report has it: without the names of everything there is.
std::string short_reason(const std::string& key, const std::string& problem) {
  if (problem.starts_with("unknown key")) return fmt::format("this Tidemark has no {}", key);
  return problem.substr(0, std::min(problem.find("; available:"), problem.find("; policies:")));
}

// Says what precision came of settings that name a 16-bit type: that depends on the engine.
void name_precision(const ScenarioDraft& draft, ImportReport& report) {
  const bool in_fsdp = draft.has_policy("fsdp") && !draft.low_frozen && !draft.low_unmixed;
  const std::string outcome =
      in_fsdp ? fmt::format("policies.fsdp.param_dtype, policies.fsdp.reduce_dtype: {}",
                            draft.low_precision.scalar)
              : fmt::format("training.precision: {}", draft.training.find("precision")->scalar);
  for (ImportedSetting& setting : report.understood) {
    if (!draft.low_precision.is_null() && setting.outcome.starts_with("training.precision: "))
      setting.outcome = outcome;
  }
}

// Says that one GPU is taken where a file shards and does not say among how many.
void report_one_gpu(const ScenarioDraft& draft, ImportReport& report) {
  if (draft.ranks > 0) return;
  for (const std::string_view policy : {"fsdp", "zero"}) {
    const auto listed =
        std::find_if(draft.policies.entries.begin(), draft.policies.entries.end(),
                     [&](const Value::Entry& entry) { return entry.key == policy; });
    if (listed == draft.policies.entries.end()) continue;
    report.not_understood.push_back(
        {"hardware.count", "", listed->location,
         fmt::format("the file does not say among how many GPUs {} divides the model, so that one "
                     "is taken; import it with --count N, as the launcher's number of processes",
                     policy)});
  }
}

// Returns an outcome of several parts ("policies.fused_loss: liger, policies.liger_kernels")
// without those about a removed value.
std::string without_part(const std::string& outcome, const std::string& key) {
  constexpr std::string_view kBetween = ", policies.";
  std::string left;
  for (std::size_t begin = 0; begin < outcome.size();) {
    const std::size_t end = std::min(outcome.find(kBetween, begin), outcome.size());
    const std::string part = outcome.substr(begin, end - begin);
    if (part.find(key) == std::string::npos) left += (left.empty() ? "" : ", ") + part;
    begin = end + 2;
  }
  return left;
}

// Moves the settings that came from a removed value to those that are not understood; one that has
// become something else as well is in both lists.
void report_left_out(const LeftOut& left, const std::string& reason, ImportReport& report) {
  bool reported = false;
  const auto concerns = [&](const ImportedSetting& setting) {
    return setting.outcome.find(left.key) != std::string::npos;
  };
  for (ImportedSetting& setting : report.understood) {
    if (!concerns(setting)) continue;
    const std::string rest = without_part(setting.outcome, left.key);
    setting.outcome = reason;
    report.not_understood.push_back(setting);
    if (!rest.empty()) setting.outcome = rest;
    reported = true;
  }
  std::erase_if(report.understood,
                [&](const ImportedSetting& setting) { return setting.outcome == reason; });
  // A default of the tool that no key of the file states.
  if (!reported) report.not_understood.push_back({left.key, "", left.value.location, reason});
}

}  // namespace
}  // namespace import_settings_detail

ImportedScenario read_settings(const Value& file, const ImportOptions& options) {
  if (!file.is_mapping())
    throw UserError(file.location, "", "expected a mapping of settings, found " + found(file));
  const import_settings_detail::Format& format = import_settings_detail::format_of(file);
  ImportedScenario imported;
  imported.format = format.title;
  imported.scenario = scenario_of_model(options.model, options.gpu);
  ScenarioDraft draft;
  draft.hidden_size = import_settings_detail::hidden_size_of(*imported.scenario.find("model"));
  draft.liger_type = liger_type(*imported.scenario.find("model"));
  draft.narrows_rest = axolotl_narrows_rest(*imported.scenario.find("model"));
  draft.ranks = options.count;
  Settings settings(&file, "", imported.report);
  format.import(settings, draft);
  if (options.count > 0) draft.ranks = options.count;
  draft.complete();
  import_settings_detail::name_precision(draft, imported.report);
  import_settings_detail::report_one_gpu(draft, imported.report);
  Value hardware = long_form("hardware", *imported.scenario.find("hardware"));
  for (const Value::Entry& entry : draft.hardware.entries)
    set_entry(hardware, entry.key, entry.location, entry.value);
  set_entry(imported.scenario, "hardware", {}, std::move(hardware));
  set_entry(imported.scenario, "training", {}, draft.training);
  set_entry(imported.scenario, "policies", {}, import_settings_detail::list_of(draft.policies));
  return imported;
}

ImportedScenario import_settings(const Value& file, const ImportOptions& options,
                                 const Environment& environment) {
  ImportedScenario imported = read_settings(file, options);
  // Each refusal leaves out one setting, so this ends.
  for (;;) {
    try {
      const Scenario scenario = decode_scenario(imported.scenario, environment);
      static_cast<void>(build_training(scenario));
      return imported;
    } catch (const UserError& refusal) {
      const auto left = import_settings_detail::remove_refused(imported.scenario, refusal);
      if (!left) throw;
      import_settings_detail::report_left_out(
          *left, import_settings_detail::short_reason(left->key, refusal.problem()),
          imported.report);
    }
  }
}

}  // namespace tidemark
