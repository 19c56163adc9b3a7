// axolotl's configuration (docs.axolotl.ai config reference; axolotl/utils/schemas/config.py).
#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "scenarios/import/draft.hpp"
#include "scenarios/read/short_form.hpp"

namespace tidemark {
namespace axolotl_detail {
namespace {

constexpr auto kWithoutEffect = std::to_array<std::string_view>({"base_model*",
                                                                 "model_type",
                                                                 "tokenizer_*",
                                                                 "is_llama_derived_model",
                                                                 "is_mistral_derived_model",
                                                                 "is_falcon_derived_model",
                                                                 "is_qwen_derived_model",
                                                                 "trust_remote_code",
                                                                 "strict",
                                                                 "datasets",
                                                                 "test_datasets",
                                                                 "dataset_*",
                                                                 "pretraining_dataset",
                                                                 "val_set_size",
                                                                 "output_dir",
                                                                 "chat_template*",
                                                                 "special_tokens",
                                                                 "tokens",
                                                                 "added_tokens_overrides",
                                                                 "resize_token_embeddings_to_32x",
                                                                 "shuffle_merged_datasets",
                                                                 "train_on_inputs",
                                                                 "group_by_length",
                                                                 "eval_*",
                                                                 "wandb_*",
                                                                 "mlflow_*",
                                                                 "comet_*",
                                                                 "use_wandb",
                                                                 "use_mlflow",
                                                                 "use_comet",
                                                                 "num_epochs",
                                                                 "max_steps",
                                                                 "lr_scheduler*",
                                                                 "learning_rate",
                                                                 "cosine_*",
                                                                 "weight_decay",
                                                                 "adam_*",
                                                                 "warmup_*",
                                                                 "logging_steps",
                                                                 "save_*",
                                                                 "saves_per_epoch",
                                                                 "evals_per_epoch",
                                                                 "early_stopping_patience",
                                                                 "resume_from_checkpoint",
                                                                 "auto_resume_from_checkpoints",
                                                                 "local_rank",
                                                                 "debug",
                                                                 "seed",
                                                                 "hub_*",
                                                                 "push_to_hub",
                                                                 "push_dataset_to_hub",
                                                                 "hf_use_auth_token",
                                                                 "loss_watchdog_*",
                                                                 "ddp_timeout",
                                                                 "revision_of_model",
                                                                 "lora_model_dir",
                                                                 "lora_out_dir",
                                                                 "lora_on_cpu",
                                                                 "lora_fan_in_fan_out",
                                                                 "merge_lora",
                                                                 "default_system_message",
                                                                 "load_best_model_at_end",
                                                                 "metric_for_best_model",
                                                                 "plugins",
                                                                 "roles_to_train",
                                                                 "train_on_eos",
                                                                 "experimental_skip_move_to_device",
                                                                 "low_cpu_mem_usage",
                                                                 "sample_packing_*",
                                                                 "eval_sample_packing",
                                                                 "multipack_real_batches",
                                                                 "torchdistx_path",
                                                                 "include_tokens_per_second",
                                                                 "remove_unused_columns",
                                                                 "skip_prepare_dataset",
                                                                 "gptq",
                                                                 "overrides_of_model_config",
                                                                 "type_of_model",
                                                                 "tf32_full",
                                                                 "noisy_embedding_alpha",
                                                                 "eot_tokens",
                                                                 "min_sample_len",
                                                                 "excess_length_strategy",
                                                                 "rl_beta"});

// Returns the value of the first key that is set and true.
bool is_on(const Settings& settings, std::string_view key) {
  const auto word = settings.word(key);
  return word && (*word == "true" || *word == "full");
}

void import_precision(Settings& settings, ScenarioDraft& draft) {
  for (const auto& [key, type] : {std::pair{"bf16", "bf16"}, std::pair{"bfloat16", "bf16"},
                                  std::pair{"fp16", "fp16"}, std::pair{"float16", "fp16"}}) {
    // "auto" takes bfloat16 where the device has it.
    const bool chosen =
        is_on(settings, key) || (settings.is_auto(key) && std::string_view(key) == "bf16");
    if (chosen && draft.low_precision.is_null()) {
      draft.low_precision = scalar_at(type, settings.location(key));
      // The model is loaded in that type.
      draft.low_model = std::string_view(type) == "bf16" || std::string_view(key) == "float16";
      draft.low_unmixed = std::string_view(key).ends_with("float16");
      settings.becomes(key, fmt::format("training.precision: {}", type));
    } else {
      settings.without_effect(key, chosen ? "another key decides" : "off");
    }
  }
  if (const auto tf32 = settings.word("tf32")) {
    draft.tf32 = *tf32 == "true" || *tf32 == "auto";
    settings.becomes("tf32", draft.tf32 ? "TF32 where nothing is 16-bit" : "no TF32");
  }
}

void import_attention_switches(Settings& settings, ScenarioDraft& draft) {
  for (const char* key : {"attention", "attn_implementation"})
    import_attention(settings, key, draft);
  for (const auto& [key, kind] :
       {std::pair{"flash_attention", "flash"}, std::pair{"sdp_attention", "flash"},
        std::pair{"xformers_attention", "flash"}, std::pair{"flex_attention", "flash"},
        std::pair{"eager_attention", "math"}}) {
    if (is_on(settings, key)) {
      draft.set_training("attention", scalar_at(kind, settings, key));
      settings.becomes(key, fmt::format("training.attention: {}", kind));
    } else {
      settings.without_effect(key, "off");
    }
  }
}

// Whether FSDP or DeepSpeed divides the model, which is then left in one type.
bool is_sharded(const Settings& settings) {
  return settings.has("fsdp") || settings.has("fsdp_config") || settings.has("deepspeed");
}

// Copies a number or a list to the policy `lora`.
void copy_to_lora(Settings& settings, std::string_view key, const std::string& parameter,
                  Value& lora) {
  const Value* value = settings.value(key);
  if (value == nullptr) return;
  set_entry(lora, parameter, settings.location(key), *value);
  settings.becomes(key, fmt::format("policies.lora.{}", parameter));
}

// Returns the format of the frozen weights; empty where they are not quantised. `compute` becomes
// the type that layers of 4 bits multiply in: that of the model, unless bnb_config_kwargs says
// otherwise.
std::string base_of(Settings& settings, const std::string& adapter, Value& compute) {
  const bool four = is_on(settings, "load_in_4bit");
  const bool eight = is_on(settings, "load_in_8bit");
  if (four && eight) {
    throw UserError(settings.location("load_in_8bit"), "load_in_8bit",
                    "load_in_4bit and load_in_8bit are both set; axolotl takes one of them");
  }
  if (adapter == "qlora" && !four) {
    throw UserError(settings.location("adapter"), "adapter",
                    "qlora needs load_in_4bit: true, as axolotl says; or write adapter: lora");
  }
  std::string base;
  if (eight) base = "int8";
  if (four) {
    // axolotl asks for double quantisation unless bnb_config_kwargs says otherwise.
    bool nested = true;
    std::string type = "nf4";
    if (settings.has("bnb_config_kwargs")) {
      Settings options = settings.group("bnb_config_kwargs");
      nested = options.flag("bnb_4bit_use_double_quant").value_or(true);
      type = options.word("bnb_4bit_quant_type").value_or("nf4");
      import_compute_type(options, compute);
      options.becomes("bnb_4bit_use_double_quant", "policies.lora.base");
      options.becomes("bnb_4bit_quant_type", "policies.lora.base");
      options.finish();
    }
    base = nested ? type + "_dq" : type;
  } else {
    compute = Value();
  }
  return base;
}

void import_adapter(Settings& settings, ScenarioDraft& draft) {
  const std::string adapter = settings.word("adapter").value_or("");
  if (adapter.empty()) {
    for (const char* key : {"load_in_4bit", "load_in_8bit"}) {
      if (is_on(settings, key))
        settings.not_understood(key, "a quantised model trains by adapters");
    }
    settings.without_effect("adapter", "off");
  } else if (adapter != "lora" && adapter != "qlora") {
    settings.not_understood("adapter", "lora and qlora are known here");
  } else {
    const Location location = settings.location("adapter");
    Value compute = draft.low_precision;
    const std::string base = base_of(settings, adapter, compute);
    Value& lora = draft.policy("lora", location);
    settings.becomes("adapter", "policies.lora");
    copy_to_lora(settings, "lora_r", "rank", lora);
    copy_to_lora(settings, "lora_alpha", "alpha", lora);
    copy_to_lora(settings, "lora_dropout", "dropout", lora);
    if (is_on(settings, "lora_target_linear")) {
      set_entry(lora, "targets", settings.location("lora_target_linear"),
                scalar_at("all-linear", settings, "lora_target_linear"));
      settings.becomes("lora_target_linear", "policies.lora.targets: all-linear");
    } else {
      copy_to_lora(settings, "lora_target_modules", "targets", lora);
    }
    copy_to_lora(settings, "lora_modules_to_save", "modules_to_save", lora);
    for (const auto& [key, parameter] :
         {std::pair{"peft_use_dora", "dora"}, std::pair{"peft_use_rslora", "rslora"}}) {
      if (!is_on(settings, key)) continue;
      set_entry(lora, parameter, settings.location(key), scalar_at("true", settings, key));
      settings.becomes(key, fmt::format("policies.lora.{}: true", parameter));
    }
    if (!base.empty()) {
      const char* key = base == "int8" ? "load_in_8bit" : "load_in_4bit";
      set_entry(lora, "base", settings.location(key), scalar_at(base, settings, key));
      settings.becomes(key, fmt::format("policies.lora.base: {}", base));
      if (!compute.is_null())
        set_entry(lora, "compute_dtype", settings.location(key), std::move(compute));
      if (!draft.narrows_rest && !is_sharded(settings))
        set_entry(lora, "prepare", settings.location(key), scalar_at("true", settings, key));
    }
    draft.low_frozen = true;
  }
  constexpr auto kOff = std::to_array<std::string_view>(
      {"load_in_4bit", "load_in_8bit", "lora_*", "peft_use_dora", "peft_use_rslora"});
  if (adapter.empty()) settings.without_effect(kOff);
  constexpr auto kSwitchedOff = std::to_array<std::string_view>(
      {"load_in_4bit", "load_in_8bit", "lora_target_linear", "peft_use_dora", "peft_use_rslora"});
  settings.without_effect(kSwitchedOff);
}

void import_batches(Settings& settings, ScenarioDraft& draft) {
  if (const auto batch = settings.integer("micro_batch_size", at_least(1))) {
    draft.set_training("micro_batch",
                       scalar_at(fmt::to_string(*batch), settings, "micro_batch_size"));
    settings.becomes("micro_batch_size", fmt::format("training.micro_batch: {}", *batch));
  }
  if (const auto batch = settings.integer("batch_size", at_least(1))) {
    // The samples of one GPU's step, rounded down; what is accumulated says it first.
    const Value* micro = draft.training.find("micro_batch");
    const std::int64_t times = *batch / (micro == nullptr ? 1 : std::stoll(micro->scalar));
    if (settings.has("gradient_accumulation_steps") || times < 1) {
      settings.without_effect("batch_size", "what is accumulated says it");
    } else {
      draft.set_training("accumulate", scalar_at(fmt::to_string(times), settings, "batch_size"));
      settings.becomes("batch_size", fmt::format("training.accumulate: {}", times));
    }
  }
  if (const auto length = settings.integer("sequence_len", at_least(1))) {
    draft.set_training("sequence", scalar_at(fmt::to_string(*length), settings, "sequence_len"));
    settings.becomes("sequence_len", fmt::format("training.sequence: {}", *length));
  }
  for (const char* key : {"sample_packing", "pad_to_sequence_len"}) {
    if (const auto full = settings.word(key)) {
      settings.becomes(key, *full == "true" ? "every sequence has training.sequence tokens"
                                            : "the longest sequence is simulated");
    }
  }
}

bool lists_plugin(const Settings& settings, std::string_view name) {
  const Value* plugins = settings.value("plugins");
  return plugins != nullptr &&
         std::any_of(plugins->items.begin(), plugins->items.end(), [&](const Value& plugin) {
           return plugin.scalar.find(name) != std::string::npos;
         });
}

// The plugin patches the classes before the model is made; other models it leaves as they are.
void import_liger(Settings& settings, ScenarioDraft& draft) {
  constexpr std::string_view kLoss = "liger_fused_linear_cross_entropy";
  constexpr auto kKernels = std::to_array<std::pair<std::string_view, std::string_view>>(
      {{"liger_rms_norm", "rms_norm"}, {"liger_glu_activation", "glu"}, {"liger_rope", "rope"}});
  if (draft.liger_type.empty()) {
    settings.without_effect(kLoss, "Liger has no kernels for the model");
    for (const auto& [key, kernel] : kKernels)
      settings.without_effect(key, "Liger has no kernels for the model");
    return;
  }
  if (is_on(settings, kLoss)) {
    draft.policy("fused_loss", settings.location(kLoss)) = scalar_at("liger", settings, kLoss);
    settings.becomes(kLoss, "policies.fused_loss: liger");
  }
  std::vector<std::string_view> left_out;
  Location first;
  for (const auto& [key, kernel] : kKernels) {
    // Its first name was liger_swiglu.
    const std::string_view old = kernel == "glu" ? "liger_swiglu" : key;
    const std::string_view given = settings.has(key) ? key : old;
    if (!is_on(settings, given)) {
      left_out.push_back(kernel);
      continue;
    }
    if (!draft.has_policy("liger_kernels")) first = settings.location(given);
    static_cast<void>(draft.policy("liger_kernels", first));
    settings.becomes(given, fmt::format("policies.liger_kernels ({})", kernel));
  }
  if (draft.has_policy("liger_kernels")) leave_out_kernels(draft, left_out, first);
  if (is_on(settings, "liger_layer_norm"))
    settings.without_effect("liger_layer_norm", "PyTorch's layer norm is one kernel as well");
}

void import_losses(Settings& settings, ScenarioDraft& draft) {
  import_liger(settings, draft);
  // Loading its plugin switches it on, unless its key says no.
  const bool cuts = settings.has("cut_cross_entropy") ? is_on(settings, "cut_cross_entropy")
                                                      : lists_plugin(settings, "cut_cross_entropy");
  if (cuts) {
    const char* key = settings.has("cut_cross_entropy") ? "cut_cross_entropy" : "plugins";
    draft.policy("fused_loss", settings.location(key)) =
        scalar_at("cut_cross_entropy", settings.location(key));
    settings.becomes(key, "policies.fused_loss: cut_cross_entropy");
  }
  if (is_on(settings, "chunked_cross_entropy")) {
    constexpr std::string_view kChunks = "chunked_cross_entropy_num_chunks";
    Value& loss = draft.policy("chunked_loss", settings.location("chunked_cross_entropy"));
    const std::int64_t chunks = settings.integer(kChunks, at_least(1)).value_or(8);
    const Location at = settings.location("chunked_cross_entropy");
    set_entry(loss, "chunks", at, scalar_at(fmt::to_string(chunks), at));
    set_entry(loss, "kind", at, scalar_at("kept", at));
    for (const std::string_view key : {std::string_view("chunked_cross_entropy"), kChunks})
      settings.becomes(key, fmt::format("policies.chunked_loss: {} chunks, kept", chunks));
  }
  settings.without_effect("cut_cross_entropy", "off");
  settings.without_effect("chunked_cross_entropy", "off");
  if (is_on(settings, "liger_cross_entropy"))
    settings.not_understood("liger_cross_entropy", "its kernel is not simulated");
  for (const char* key :
       {"liger_rope", "liger_rms_norm", "liger_layer_norm", "liger_swiglu", "liger_glu_activation",
        "liger_cross_entropy", "liger_fused_linear_cross_entropy"})
    settings.without_effect(key, "off");
}

void import_parallel(Settings& settings, ScenarioDraft& draft) {
  for (const auto& [key, policy] : {std::pair{"tensor_parallel_size", "tensor_parallel"},
                                    std::pair{"context_parallel_size", "context_parallel"},
                                    std::pair{"sequence_parallel_degree", "context_parallel"}}) {
    const auto size = settings.integer(key, at_least(1));
    if (!size) continue;
    if (*size > 1) {
      set_entry(draft.policy(policy, settings.location(key)), "size", settings.location(key),
                scalar_at(fmt::to_string(*size), settings, key));
    }
    settings.becomes(key, fmt::format("policies.{}.size: {}", policy, *size));
  }
}

}  // namespace
}  // namespace axolotl_detail

void import_axolotl(Settings& settings, ScenarioDraft& draft) {
  axolotl_detail::import_batches(settings, draft);
  axolotl_detail::import_precision(settings, draft);
  axolotl_detail::import_attention_switches(settings, draft);
  axolotl_detail::import_adapter(settings, draft);
  import_optimizer(settings, "optimizer", draft);
  import_trainer_keys(settings, draft);
  import_checkpointing(settings, draft);
  ask_for_input_gradients(draft);
  axolotl_detail::import_losses(settings, draft);
  axolotl_detail::import_parallel(settings, draft);
  import_deepspeed_file(settings, "deepspeed", draft);
  if (const auto version = settings.integer("fsdp_version", between(1, 2)))
    settings.becomes("fsdp_version", fmt::format("policies.fsdp.version: {}", *version));
  import_fsdp(settings, draft);
  if (draft.has_policy("fsdp")) {
    if (const auto version = settings.integer("fsdp_version")) {
      set_entry(draft.policy("fsdp", {}), "version", settings.location("fsdp_version"),
                scalar_at(fmt::to_string(*version), settings, "fsdp_version"));
    }
  }
  settings.not_understood("tiled_mlp",
                          "feed-forward layers run whole here; checkpoint_every bounds what they "
                          "keep");
  for (const char* key : {"rl", "trl", "reward_model"})
    settings.not_understood(key, "the step is that of supervised training");
  settings.without_effect(axolotl_detail::kWithoutEffect);
  settings.finish();
}

}  // namespace tidemark
