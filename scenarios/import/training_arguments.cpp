// transformers' TrainingArguments, as HfArgumentParser reads them or Trainer writes them, with the
// keys of TRL's SFTConfig (transformers training_args.py, trl/trainer/sft_config.py).
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "scenarios/import/draft.hpp"
#include "scenarios/read/liger_models.hpp"
#include "scenarios/read/short_form.hpp"

namespace tidemark {
namespace training_arguments_detail {
namespace {

// Keys that no figure of a training step depends on.
constexpr auto kWithoutEffect =
    std::to_array<std::string_view>({"output_dir",
                                     "overwrite_output_dir",
                                     "do_train",
                                     "do_eval",
                                     "do_predict",
                                     "learning_rate",
                                     "weight_decay",
                                     "adam_*",
                                     "num_train_epochs",
                                     "max_steps",
                                     "lr_scheduler_*",
                                     "warmup_*",
                                     "log_*",
                                     "logging_*",
                                     "save_*",
                                     "eval_*",
                                     "evaluation_strategy",
                                     "per_device_eval_batch_size",
                                     "per_gpu_eval_batch_size",
                                     "prediction_loss_only",
                                     "seed",
                                     "data_seed",
                                     "run_name",
                                     "report_to",
                                     "push_to_hub*",
                                     "hub_*",
                                     "load_best_model_at_end",
                                     "metric_for_best_model",
                                     "greater_is_better",
                                     "resume_from_checkpoint",
                                     "disable_tqdm",
                                     "remove_unused_columns",
                                     "label_names",
                                     "ignore_data_skip",
                                     "past_index",
                                     "group_by_length",
                                     "length_column_name",
                                     "skip_memory_metrics",
                                     "include_*",
                                     "optim_target_modules",
                                     "dataset_*",
                                     "packing_strategy",
                                     "completion_only_loss",
                                     "assistant_only_loss",
                                     "eos_token",
                                     "pad_token",
                                     "chat_template_path",
                                     "model_name_or_path",
                                     "trust_remote_code",
                                     "local_rank",
                                     "ddp_backend",
                                     "ddp_timeout",
                                     "project",
                                     "trackio_*",
                                     "use_cpu",
                                     "no_cuda",
                                     "jit_mode_eval",
                                     "full_determinism",
                                     "restore_callback_states_from_checkpoint",
                                     "fp16_full_eval",
                                     "bf16_full_eval",
                                     "batch_eval_metrics",
                                     "average_tokens_across_devices",
                                     "debug",
                                     "dataloader_persistent_workers",
                                     "dataloader_drop_last",
                                     "ddp_broadcast_buffers",
                                     "half_precision_backend",
                                     "fp16_opt_level",
                                     "fp16_backend"});

void import_batch(Settings& settings, ScenarioDraft& draft) {
  // The Trainer's default.
  constexpr std::string_view kDefaultBatch = "8";
  Value batch = scalar_at(std::string(kDefaultBatch), Location{});
  for (const char* key : {"per_device_train_batch_size", "per_gpu_train_batch_size"}) {
    const auto given = settings.integer(key, at_least(1));
    if (!given) continue;
    batch = scalar_at(fmt::to_string(*given), settings, key);
    settings.becomes(key, fmt::format("training.micro_batch: {}", *given));
  }
  draft.set_training("micro_batch", std::move(batch));
}

void import_precision(Settings& settings, ScenarioDraft& draft) {
  for (const char* key : {"bf16", "fp16"}) {
    const auto given = settings.flag(key);
    if (given && *given) {
      draft.set_low_precision(scalar_at(key, settings, key));
      settings.becomes(key, fmt::format("training.precision: {}", key));
    } else if (given) {
      settings.without_effect(key, "off");
    }
  }
  if (const auto tf32 = settings.flag("tf32")) {
    draft.tf32 = *tf32;
    settings.becomes("tf32", *tf32 ? "TF32 where nothing is 16-bit" : "no TF32");
  }
}

// Imports the options of from_pretrained() that SFTConfig carries.
void import_model_options(Settings& settings, ScenarioDraft& draft) {
  if (!settings.has("model_init_kwargs")) return;
  Settings options = settings.group("model_init_kwargs");
  for (const char* key : {"torch_dtype", "dtype"}) {
    const auto type = options.word(key);
    if (type == "bfloat16" || type == "float16") {
      draft.low_model = true;
      draft.low_unmixed = draft.low_precision.is_null();
      draft.low_precision = scalar_at(type == "bfloat16" ? "bf16" : "fp16", options, key);
      options.becomes(key, fmt::format("training.precision: {}", draft.low_precision.scalar));
    }
  }
  import_attention(options, "attn_implementation", draft);
  constexpr auto kNone =
      std::to_array<std::string_view>({"use_cache", "trust_remote_code", "revision", "device_map"});
  options.without_effect(kNone);
  options.finish();
}

// TRL and axolotl: true, and axolotl's word for copies of what checkpoints keep.
void import_activation_offloading(Settings& settings, ScenarioDraft& draft) {
  constexpr std::string_view kKey = "activation_offloading";
  const std::string word = settings.word(kKey).value_or("false");
  if (word == "disk") {
    settings.not_understood(kKey, "activations go to the host here; write true or legacy");
  } else if (word == "legacy" || settings.flag(kKey).value_or(false)) {
    const std::string policy = word == "legacy" ? "offload_checkpoints" : "offload_activations";
    static_cast<void>(draft.policy(policy, settings.location(kKey)));
    settings.becomes(kKey, "policies." + policy);
  }
}

// transformers patches norms, activations and rotary embeddings with the loss, unless
// liger_kernel_config leaves some out; of models that Liger does not know it says so in its log.
void import_liger(Settings& settings, ScenarioDraft& draft) {
  constexpr std::string_view kKey = "use_liger_kernel";
  if (!settings.flag(kKey).value_or(false)) {
    settings.without_effect("liger_kernel_config", "without use_liger_kernel");
    return;
  }
  Settings config = settings.group("liger_kernel_config");
  if (draft.liger_type.empty()) {
    settings.without_effect(kKey, "Liger has no kernels for the model");
    constexpr auto kAll = std::to_array<std::string_view>({"*"});
    config.without_effect(kAll);
    return;
  }
  const auto keeps = [&](std::string_view key) {
    const auto flag = config.flag(key);
    if (flag) config.becomes(key, *flag ? "as by itself" : "left out");
    return flag.value_or(true);
  };
  std::string outcome;
  if (keeps("fused_linear_cross_entropy")) {
    draft.policy("fused_loss", settings.location(kKey)) = scalar_at("liger", settings, kKey);
    outcome = "policies.fused_loss: liger, ";
  }
  // Its functions for each model take the switch of the activation that the model has.
  const bool is_gemma = draft.liger_type.starts_with("gemma");
  std::vector<std::string_view> left_out;
  if (!keeps("rms_norm")) left_out.emplace_back("rms_norm");
  if (!keeps(is_gemma ? "geglu" : "swiglu")) left_out.emplace_back("glu");
  if (!keeps("rope")) left_out.emplace_back("rope");
  const bool has_kernels = left_out.size() < 3;
  if (liger_leaves_head_norms(draft.liger_type)) left_out.emplace_back("head_norms");
  if (has_kernels) {
    static_cast<void>(draft.policy("liger_kernels", settings.location(kKey)));
    leave_out_kernels(draft, left_out, settings.location(kKey));
    outcome += "policies.liger_kernels, ";
  }
  if (config.flag("cross_entropy").value_or(false))
    config.not_understood("cross_entropy", "its kernel is not simulated");
  constexpr auto kOthers =
      std::to_array<std::string_view>({"cross_entropy", "layer_norm", "swiglu", "geglu"});
  config.without_effect(kOthers);
  config.finish();
  if (outcome.ends_with(", ")) outcome.resize(outcome.size() - 2);
  settings.becomes(kKey, outcome.empty() ? "all of it is left out" : outcome);
}

}  // namespace
}  // namespace training_arguments_detail

void import_attention(Settings& settings, std::string_view key, ScenarioDraft& draft) {
  const auto kind = settings.word(key);
  if (!kind) return;
  const bool math = *kind == "eager";
  const bool fused = kind->starts_with("flash_attention") || *kind == "sdpa" || *kind == "flash" ||
                     *kind == "xformers";
  if (!math && !fused) {
    settings.not_understood(key, "attention is math or flash here");
    return;
  }
  draft.set_training("attention", scalar_at(math ? "math" : "flash", settings, key));
  settings.becomes(key, fmt::format("training.attention: {}", math ? "math" : "flash"));
}

void import_trainer_keys(Settings& settings, ScenarioDraft& draft) {
  if (const auto steps = settings.integer("gradient_accumulation_steps", at_least(1))) {
    draft.set_training("accumulate",
                       scalar_at(fmt::to_string(*steps), settings, "gradient_accumulation_steps"));
    settings.becomes("gradient_accumulation_steps", fmt::format("training.accumulate: {}", *steps));
  }
  // The Trainer clips at 1.0 unless it is told otherwise.
  const auto norm = settings.number("max_grad_norm", at_least(0));
  if (norm.value_or(1) > 0) {
    const std::string text = fmt::format("{:g}", norm.value_or(1));
    draft.set_training("clip_grad_norm", norm ? scalar_at(text, settings, "max_grad_norm")
                                              : scalar_at("1.0", Location{}));
    settings.becomes("max_grad_norm", fmt::format("training.clip_grad_norm: {}", text));
  } else {
    settings.becomes("max_grad_norm", "no clipping");
  }
  const auto compile = settings.flag("torch_compile");
  if (compile.value_or(false)) {
    draft.set_training("compile", scalar_at("inductor", settings, "torch_compile"));
    settings.becomes("torch_compile", "training.compile: inductor");
    const std::string mode = settings.word("torch_compile_mode").value_or("default");
    if (mode == "reduce-overhead" || mode == "max-autotune") {
      draft.set_training("host", scalar_at("cuda_graphs", settings, "torch_compile_mode"));
      settings.becomes("torch_compile_mode", "training.host: cuda_graphs");
    }
  } else if (compile) {
    settings.without_effect("torch_compile", "off");
  }
  training_arguments_detail::import_liger(settings, draft);
  training_arguments_detail::import_activation_offloading(settings, draft);
  import_loader(settings, draft);
  settings.not_understood("auto_find_batch_size",
                          "tidemark fit --finder accelerate shows what it would find");
  constexpr auto kOff = std::to_array<std::string_view>(
      {"use_liger_kernel", "activation_offloading", "torch_compile_*", "torch_empty_cache_steps"});
  settings.without_effect(kOff);
}

void import_checkpointing(Settings& settings, ScenarioDraft& draft) {
  constexpr std::string_view kKey = "gradient_checkpointing";
  const auto word = settings.word(kKey);
  if (word) {
    const bool offload = *word == "offload" || *word == "unsloth";
    const bool all = offload || settings.flag(kKey).value_or(false);
    if (all) {
      static_cast<void>(draft.policy("checkpoint_every", settings.location(kKey)));
      set_entry(draft.policy("checkpoint_every", {}), "period", settings.location(kKey),
                scalar_at("1", settings, kKey));
      // Copies of what the segments keep go to the host.
      if (offload) static_cast<void>(draft.policy("offload_checkpoints", settings.location(kKey)));
      settings.becomes(kKey, offload ? "policies.checkpoint_every, policies.offload_checkpoints"
                                     : "policies.checkpoint_every: {period: 1}");
    } else {
      settings.without_effect(kKey, "off");
    }
  }
  if (!settings.has("gradient_checkpointing_kwargs")) return;
  Settings options = settings.group("gradient_checkpointing_kwargs");
  const auto reentrant = options.flag("use_reentrant");
  if (reentrant && draft.has_policy("checkpoint_every")) {
    set_entry(draft.policy("checkpoint_every", {}), "reentrant", options.location("use_reentrant"),
              scalar_at(*reentrant ? "true" : "false", options, "use_reentrant"));
    options.becomes("use_reentrant",
                    fmt::format("policies.checkpoint_every.reentrant: {}", *reentrant));
  }
  constexpr auto kNone =
      std::to_array<std::string_view>({"use_reentrant", "preserve_rng_state", "determinism_check"});
  options.without_effect(kNone);
  options.finish();
}

void import_loader(Settings& settings, ScenarioDraft& draft) {
  const auto workers = settings.integer("dataloader_num_workers");
  if (workers && *workers > 0) {
    const Location location = settings.location("dataloader_num_workers");
    Value loader = mapping_value(location);
    set_entry(loader, "workers", location,
              scalar_at(fmt::to_string(*workers), settings, "dataloader_num_workers"));
    settings.becomes("dataloader_num_workers",
                     fmt::format("training.loader.workers: {}", *workers));
    if (const auto factor = settings.integer("dataloader_prefetch_factor", at_least(1))) {
      set_entry(loader, "prefetch_factor", settings.location("dataloader_prefetch_factor"),
                scalar_at(fmt::to_string(*factor), settings, "dataloader_prefetch_factor"));
      settings.becomes("dataloader_prefetch_factor",
                       fmt::format("training.loader.prefetch_factor: {}", *factor));
    }
    // The Trainer pins batches unless it is told not to.
    if (!settings.has("dataloader_pin_memory"))
      set_entry(loader, "pin_memory", location, scalar_at("true", Location{}));
    if (const auto pinned = settings.flag("dataloader_pin_memory")) {
      set_entry(loader, "pin_memory", settings.location("dataloader_pin_memory"),
                scalar_at(*pinned ? "true" : "false", settings, "dataloader_pin_memory"));
      settings.becomes("dataloader_pin_memory",
                       fmt::format("training.loader.pin_memory: {}", *pinned));
    }
    draft.set_training("loader", std::move(loader));
  }
  constexpr auto kLoader = std::to_array<std::string_view>(
      {"dataloader_num_workers", "dataloader_prefetch_factor", "dataloader_pin_memory"});
  settings.without_effect(kLoader);
}

void import_training_arguments(Settings& settings, ScenarioDraft& draft) {
  training_arguments_detail::import_batch(settings, draft);
  training_arguments_detail::import_precision(settings, draft);
  training_arguments_detail::import_model_options(settings, draft);
  import_trainer_keys(settings, draft);
  import_checkpointing(settings, draft);
  import_model_arguments(settings, draft);
  ask_for_input_gradients(draft);
  import_optimizer(settings, "optim", draft);
  for (const char* key : {"max_length", "max_seq_length"}) {
    const auto length = settings.integer(key, at_least(1));
    if (!length) continue;
    draft.set_training("sequence", scalar_at(fmt::to_string(*length), settings, key));
    settings.becomes(key, fmt::format("training.sequence: {}", *length));
  }
  if (const auto packing = settings.flag("packing")) {
    settings.becomes("packing", *packing ? "every sequence has training.sequence tokens"
                                         : "the longest sequence is simulated");
  }
  import_deepspeed_file(settings, "deepspeed", draft);
  import_fsdp(settings, draft);
  if (const auto bucket = settings.integer("ddp_bucket_cap_mb", at_least(1))) {
    set_entry(draft.policy("data_parallel", settings.location("ddp_bucket_cap_mb")), "bucket",
              settings.location("ddp_bucket_cap_mb"),
              scalar_at(fmt::format("{}MiB", *bucket), settings, "ddp_bucket_cap_mb"));
    settings.becomes("ddp_bucket_cap_mb",
                     fmt::format("policies.data_parallel.bucket: {}MiB", *bucket));
  }
  if (const auto unused = settings.flag("ddp_find_unused_parameters")) {
    if (*unused) {
      set_entry(draft.policy("data_parallel", settings.location("ddp_find_unused_parameters")),
                "find_unused", settings.location("ddp_find_unused_parameters"),
                scalar_at("true", settings, "ddp_find_unused_parameters"));
      settings.becomes("ddp_find_unused_parameters", "policies.data_parallel.find_unused: true");
    } else {
      settings.without_effect("ddp_find_unused_parameters", "off");
    }
  }
  settings.without_effect(training_arguments_detail::kWithoutEffect);
  settings.finish();
}

}  // namespace tidemark
