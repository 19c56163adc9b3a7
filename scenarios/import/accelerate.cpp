// Accelerate's configuration (accelerate/commands/config, accelerate/utils/dataclasses.py), and
// FSDP as Accelerate and the Trainer configure it.
#include <array>

#include <fmt/format.h>

#include "graph/core/document.hpp"
#include "scenarios/import/draft.hpp"
#include "scenarios/read/short_form.hpp"

namespace tidemark {
namespace accelerate_detail {
namespace {

constexpr auto kWithoutEffect = std::to_array<std::string_view>({"compute_environment",
                                                                 "debug",
                                                                 "downcast_bf16",
                                                                 "machine_rank",
                                                                 "main_training_function",
                                                                 "main_process_ip",
                                                                 "main_process_port",
                                                                 "rdzv_backend",
                                                                 "rdzv_endpoint",
                                                                 "same_network",
                                                                 "tpu_*",
                                                                 "use_cpu",
                                                                 "enable_cpu_affinity",
                                                                 "gpu_ids",
                                                                 "command_file",
                                                                 "commands",
                                                                 "deepspeed_hostfile",
                                                                 "dynamo_backend",
                                                                 "ipex_config",
                                                                 "mpirun_config"});

// Keys of a group of FSDP, with or without "fsdp_" in front of them.
class FsdpKeys {
 public:
  explicit FsdpKeys(Settings& group) : group_(group) {}

  // Returns the key as the group has it; the shorter form where it has none.
  [[nodiscard]] std::string named(const std::string& key) const {
    const std::string longer = "fsdp_" + key;
    return group_.has(longer) ? longer : key;
  }
  [[nodiscard]] std::optional<std::string> word(const std::string& key) const {
    return group_.word(named(key));
  }
  [[nodiscard]] std::optional<bool> flag(const std::string& key) const {
    return group_.flag(named(key));
  }
  // Sets a parameter of the policy and reports it.
  void sets(Value& policy, const std::string& key, const std::string& parameter,
            const std::string& value) {
    const std::string name = named(key);
    set_entry(policy, parameter, group_.location(name), scalar_at(value, group_, name));
    group_.becomes(name, fmt::format("policies.fsdp.{}: {}", parameter, value));
  }
  void becomes(const std::string& key, const std::string& outcome) {
    group_.becomes(named(key), outcome);
  }
  void not_understood(const std::string& key, const std::string& reason) {
    group_.not_understood(named(key), reason);
  }

 private:
  Settings& group_;
};

// A sharding strategy: torch's name, its number in FSDP's enumeration, what is left gathered.
struct Strategy {
  std::string_view name;
  std::string_view number;
  bool shards;
  bool reshards;
  bool hybrid;
};
constexpr auto kStrategies =
    std::to_array<Strategy>({{"full_shard", "1", true, true, false},
                             {"shard_grad_op", "2", true, false, false},
                             {"no_shard", "3", false, false, false},
                             {"hybrid_shard", "4", true, true, true},
                             {"hybrid_shard_zero2", "5", true, false, true}});

const Strategy* strategy_named(const std::string& word) {
  for (const Strategy& strategy : kStrategies) {
    if (word == strategy.name || word == strategy.number) return &strategy;
  }
  return nullptr;
}

void import_strategy(FsdpKeys& keys, const std::string& key, Value& policy, ScenarioDraft& draft) {
  const auto word = keys.word(key);
  if (!word) return;
  const Strategy* strategy = strategy_named(*word);
  if (strategy == nullptr) {
    keys.not_understood(key, "no strategy of FSDP");
  } else if (!strategy->shards) {
    keys.becomes(key, "data-parallel ranks hold everything");
    std::erase_if(draft.policies.entries,
                  [](const Value::Entry& entry) { return entry.key == "fsdp"; });
    draft.engine = TrainingEngine::kTrainer;
  } else if (strategy->hybrid) {
    keys.not_understood(key, "write policies.fsdp.shard: the number of GPUs of a group");
  } else {
    keys.sets(policy, key, "reshard_after_forward", strategy->reshards ? "true" : "false");
  }
}

void import_units(FsdpKeys& keys, Value& policy) {
  const auto wrap = keys.word("auto_wrap_policy");
  if (!wrap) return;
  if (*wrap == "transformer_based_wrap") {
    keys.sets(policy, "auto_wrap_policy", "units", "blocks");
  } else if (*wrap == "no_wrap") {
    keys.sets(policy, "auto_wrap_policy", "units", "whole");
  } else {
    keys.not_understood("auto_wrap_policy", "units are blocks, whole, or a list of modules here");
  }
}

void import_prefetch(FsdpKeys& keys, Value& policy) {
  const std::string key =
      keys.word("backward_prefetch_policy") ? "backward_prefetch_policy" : "backward_prefetch";
  const auto prefetch = keys.word(key);
  if (!prefetch) return;
  const std::string ours = prefetch->ends_with("post")  ? "post"
                           : prefetch->ends_with("pre") ? "pre"
                                                        : "none";
  keys.sets(policy, key, "prefetch", ours);
}

// Imports the keys of an FSDP group.
void import_group(Settings& group, ScenarioDraft& draft, const Location& location) {
  draft.engine = TrainingEngine::kFsdp;
  Value& policy = draft.policy("fsdp", location);
  FsdpKeys keys(group);
  const std::string version_key = keys.named("version");
  const std::int64_t version = group.integer(version_key, between(1, 2)).value_or(1);
  keys.sets(policy, "version", "version", fmt::to_string(version));
  if (!group.has(version_key)) {
    set_entry(policy, "version", location, scalar_at("1", location));
  }
  import_units(keys, policy);
  import_prefetch(keys, policy);
  const auto original = keys.flag("use_orig_params");
  if (original && version == 1) {
    keys.sets(policy, "use_orig_params", "use_orig_params", *original ? "true" : "false");
  }
  if (keys.flag("activation_checkpointing").value_or(false)) {
    const std::string name = keys.named("activation_checkpointing");
    set_entry(draft.policy("checkpoint_every", group.location(name)), "period",
              group.location(name), scalar_at("1", group, name));
    set_entry(draft.policy("checkpoint_every", {}), "reentrant", group.location(name),
              scalar_at("false", group, name));
    keys.becomes("activation_checkpointing", "policies.checkpoint_every, not reentrant");
  }
  for (const char* key : {"offload_params", "cpu_offload"}) {
    if (!keys.flag(key).value_or(false)) continue;
    keys.sets(draft.policy("fsdp", location), key, "offload", "host");
  }
  const auto limits = keys.flag("limit_all_gathers");
  if (limits && version == 1) {
    keys.sets(draft.policy("fsdp", location), "limit_all_gathers", "limit_all_gathers",
              *limits ? "true" : "false");
  }
  const std::string reshard = keys.named("reshard_after_forward");
  const std::string word = group.word(reshard).value_or("");
  if (word == "true" || word == "false") {
    keys.sets(draft.policy("fsdp", location), "reshard_after_forward", "reshard_after_forward",
              word);
  } else if (!word.empty()) {
    import_strategy(keys, "reshard_after_forward", draft.policy("fsdp", location), draft);
  }
  if (draft.has_policy("fsdp"))
    import_strategy(keys, "sharding_strategy", draft.policy("fsdp", location), draft);
  constexpr auto kNone = std::to_array<std::string_view>({"fsdp_state_dict_type",
                                                          "state_dict_type",
                                                          "fsdp_sync_module_states",
                                                          "sync_module_states",
                                                          "fsdp_cpu_ram_efficient_loading",
                                                          "cpu_ram_efficient_loading",
                                                          "fsdp_use_orig_params",
                                                          "use_orig_params",
                                                          "fsdp_transformer_layer_cls_to_wrap",
                                                          "transformer_layer_cls_to_wrap",
                                                          "fsdp_offload_params",
                                                          "offload_params",
                                                          "fsdp_cpu_offload",
                                                          "cpu_offload",
                                                          "fsdp_activation_checkpointing",
                                                          "activation_checkpointing",
                                                          "fsdp_forward_prefetch",
                                                          "forward_prefetch",
                                                          "limit_all_gathers",
                                                          "fsdp_limit_all_gathers",
                                                          "final_state_dict_type",
                                                          "xla*"});
  group.without_effect(kNone);
  group.finish();
}

// Imports DeepSpeed's settings as Accelerate's questionnaire writes them.
void import_deepspeed_answers(Settings& settings, ScenarioDraft& draft) {
  if (!settings.has("deepspeed_config")) return;
  draft.engine = TrainingEngine::kDeepSpeed;
  Settings group = settings.group("deepspeed_config");
  import_deepspeed_file(group, "deepspeed_config_file", draft);
  const std::int64_t stage = group.integer("zero_stage", between(0, 3)).value_or(0);
  if (stage > 0) {
    set_entry(draft.policy("zero", group.location("zero_stage")), "stage",
              group.location("zero_stage"), scalar_at(fmt::to_string(stage), group, "zero_stage"));
    group.becomes("zero_stage", fmt::format("policies.zero.stage: {}", stage));
  } else {
    group.becomes("zero_stage", "no policy: data-parallel ranks hold everything");
  }
  for (const std::string_view key : {"offload_optimizer_device", "offload_param_device"}) {
    const std::string device = group.word(key).value_or("none");
    if (device != "cpu" && device != "nvme") continue;
    const bool parameters = key == "offload_param_device";
    if (parameters && stage < 3) {
      group.without_effect(key, "of stage 3 only");
    } else if (stage == 0) {
      group.without_effect(key, "of ZeRO's stages");
    } else {
      group.becomes(key, parameters ? draft.offload_parameters(device, group.location(key))
                                    : draft.offload_optimizer(device, group.location(key)));
    }
  }
  if (const auto steps = group.integer("gradient_accumulation_steps", at_least(1))) {
    draft.set_training("accumulate",
                       scalar_at(fmt::to_string(*steps), group, "gradient_accumulation_steps"));
    group.becomes("gradient_accumulation_steps", fmt::format("training.accumulate: {}", *steps));
  }
  if (const auto norm = group.number("gradient_clipping", above(0))) {
    draft.set_training("clip_grad_norm",
                       scalar_at(fmt::format("{:g}", *norm), group, "gradient_clipping"));
    group.becomes("gradient_clipping", fmt::format("training.clip_grad_norm: {:g}", *norm));
  }
  constexpr auto kNone = std::to_array<std::string_view>(
      {"offload_optimizer_device", "offload_param_device", "zero3_init_flag",
       "zero3_save_16bit_model", "deepspeed_multinode_launcher", "deepspeed_hostfile",
       "offload_optimizer_nvme_path", "offload_param_nvme_path"});
  group.without_effect(kNone);
  group.finish();
}

void import_megatron(Settings& settings, ScenarioDraft& draft) {
  if (!settings.has("megatron_lm_config")) return;
  Settings group = settings.group("megatron_lm_config");
  const auto take = [&](const char* key, const std::string& policy, const std::string& parameter) {
    const auto size = group.integer(key, at_least(1));
    if (!size) return;
    if (*size > 1) {
      set_entry(draft.policy(policy, group.location(key)), parameter, group.location(key),
                scalar_at(fmt::to_string(*size), group, key));
    }
    group.becomes(key, *size > 1 ? fmt::format("policies.{}.{}: {}", policy, parameter, *size)
                                 : fmt::format("no policy {}: one rank divides nothing", policy));
  };
  take("megatron_lm_tp_degree", "tensor_parallel", "size");
  take("megatron_lm_pp_degree", "pipeline", "size");
  if (group.flag("megatron_lm_sequence_parallelism").value_or(false) &&
      draft.has_policy("tensor_parallel")) {
    set_entry(draft.policy("tensor_parallel", {}), "sequence",
              group.location("megatron_lm_sequence_parallelism"),
              scalar_at("true", group, "megatron_lm_sequence_parallelism"));
    group.becomes("megatron_lm_sequence_parallelism", "policies.tensor_parallel.sequence: true");
  }
  if (group.flag("megatron_lm_use_distributed_optimizer").value_or(false)) {
    static_cast<void>(draft.policy("distributed_optimizer",
                                   group.location("megatron_lm_use_distributed_optimizer")));
    group.becomes("megatron_lm_use_distributed_optimizer", "policies.distributed_optimizer");
  }
  if (group.flag("megatron_lm_recompute_activations").value_or(false)) {
    static_cast<void>(
        draft.policy("megatron_selective", group.location("megatron_lm_recompute_activations")));
    group.becomes("megatron_lm_recompute_activations", "policies.megatron_selective");
  }
  const auto micro_batches = group.integer("megatron_lm_num_micro_batches", at_least(1));
  if (micro_batches) {
    draft.set_training("accumulate", scalar_at(fmt::to_string(*micro_batches), group,
                                               "megatron_lm_num_micro_batches"));
    group.becomes("megatron_lm_num_micro_batches",
                  fmt::format("training.accumulate: {}", *micro_batches));
  }
  if (const auto norm = group.number("megatron_lm_gradient_clipping", above(0))) {
    draft.set_training("clip_grad_norm", scalar_at(fmt::format("{:g}", *norm), group,
                                                   "megatron_lm_gradient_clipping"));
    group.becomes("megatron_lm_gradient_clipping",
                  fmt::format("training.clip_grad_norm: {:g}", *norm));
  }
  // Megatron keeps fp32 masters and moments of 16-bit weights.
  draft.engine = TrainingEngine::kDeepSpeed;
  group.finish();
}

}  // namespace
}  // namespace accelerate_detail

void import_fsdp(Settings& settings, ScenarioDraft& draft) {
  // TrainingArguments: "full_shard auto_wrap", or a list of such words; an empty text is off.
  const Value* words = settings.value("fsdp");
  std::string text;
  if (words != nullptr && words->is_scalar()) text = words->scalar;
  if (words != nullptr && words->is_sequence()) {
    for (const Value& item : words->items)
      text += item.scalar + ' ';
  }
  const bool off = text.empty() || text == "false";
  const bool configured = settings.has("fsdp_config");
  const bool by_words = words != nullptr && !off;
  if (!by_words && (words != nullptr || !configured)) {
    settings.without_effect("fsdp", "off");
    settings.without_effect("fsdp_config", "fsdp is off");
    return;
  }
  const std::string place = by_words ? "fsdp" : "fsdp_config";
  const Location location = settings.location(place);
  Settings group = settings.group("fsdp_config");
  accelerate_detail::import_group(group, draft, location);
  if (!by_words || !draft.has_policy("fsdp")) return;
  std::string outcome = "policies.fsdp";
  Value& policy = draft.policy("fsdp", location);
  const Location at = words->location;
  if (text.find("shard_grad_op") != std::string::npos) {
    set_entry(policy, "reshard_after_forward", at, scalar_at("false", at));
    outcome += ".reshard_after_forward: false";
  }
  if (text.find("auto_wrap") == std::string::npos) {
    set_entry(policy, "units", at, scalar_at("whole", at));
  }
  if (text.find("offload") != std::string::npos) {
    set_entry(draft.policy("fsdp", at), "offload", at, scalar_at("host", at));
    outcome += ", policies.fsdp.offload: host";
  }
  settings.becomes("fsdp", outcome);
}

void import_accelerate(Settings& settings, ScenarioDraft& draft) {
  if (const auto processes = settings.integer("num_processes", at_least(1))) {
    draft.ranks = *processes;
    settings.becomes("num_processes", fmt::format("hardware.count: {}", *processes));
  }
  if (const auto machines = settings.integer("num_machines", at_least(1))) {
    draft.machines = *machines;
    draft.machines_location = settings.location("num_machines");
    settings.becomes("num_machines",
                     *machines == 1 ? "one host" : "hardware.node: the GPUs of each host");
  }
  const auto precision = settings.word("mixed_precision");
  if (precision == "bf16" || precision == "fp16") {
    draft.low_precision = scalar_at(*precision, settings, "mixed_precision");
    settings.becomes("mixed_precision", fmt::format("training.precision: {}", *precision));
  } else if (precision == "no") {
    settings.becomes("mixed_precision", "training.precision: fp32");
  } else if (precision) {
    settings.not_understood("mixed_precision", "write training.precision: fp8_mixed");
  }
  const std::string type = settings.word("distributed_type").value_or("no");
  settings.becomes("distributed_type", "the policies below");
  if (type == "deepspeed") {
    accelerate_detail::import_deepspeed_answers(settings, draft);
  } else if (type == "fsdp") {
    import_fsdp(settings, draft);
  } else if (type == "megatron_lm") {
    accelerate_detail::import_megatron(settings, draft);
  }
  if (const auto steps = settings.integer("gradient_accumulation_steps", at_least(1))) {
    draft.set_training("accumulate",
                       scalar_at(fmt::to_string(*steps), settings, "gradient_accumulation_steps"));
    settings.becomes("gradient_accumulation_steps", fmt::format("training.accumulate: {}", *steps));
  }
  if (settings.has("dynamo_config")) {
    Settings dynamo = settings.group("dynamo_config");
    const auto backend = dynamo.word("dynamo_backend");
    constexpr std::string_view kRegional = "dynamo_use_regional_compilation";
    const bool regional = dynamo.flag(kRegional).value_or(false);
    if (backend == "inductor") {
      const std::string scope = regional ? "regional" : "inductor";
      draft.set_training("compile", scalar_at(scope, dynamo, "dynamo_backend"));
      dynamo.becomes("dynamo_backend", "training.compile: " + scope);
      dynamo.becomes(kRegional, "training.compile: " + scope);
    } else if (backend == "no") {
      dynamo.without_effect("dynamo_backend", "off");
      dynamo.without_effect(kRegional, "dynamo_backend is NO");
    }
    dynamo.finish();
  }
  import_parallelism(settings, "parallelism_config", draft);
  for (const auto& [key, of] :
       {std::pair{"deepspeed_config", "deepspeed"}, std::pair{"fsdp_config", "fsdp"},
        std::pair{"megatron_lm_config", "megatron_lm"}}) {
    if (type != of) settings.without_effect(key, "not the distributed_type");
  }
  settings.without_effect(accelerate_detail::kWithoutEffect);
  settings.finish();
}

}  // namespace tidemark
