// DeepSpeed's configuration (deepspeed/runtime/config.py, deepspeed/runtime/zero/config.py).
#include <array>
#include <cstdint>
#include <filesystem>

#include <fmt/format.h>

#include "graph/core/document.hpp"
#include "graph/core/paths.hpp"
#include "graph/core/piped_files.hpp"
#include "scenarios/import/draft.hpp"
#include "scenarios/read/short_form.hpp"

namespace tidemark {
namespace import_deepspeed_detail {
namespace {

constexpr auto kWithoutEffect = std::to_array<std::string_view>({"steps_per_print",
                                                                 "wall_clock_breakdown",
                                                                 "dump_state",
                                                                 "scheduler",
                                                                 "prescale_gradients",
                                                                 "gradient_predivide_factor",
                                                                 "memory_breakdown",
                                                                 "tensorboard",
                                                                 "wandb",
                                                                 "csv_monitor",
                                                                 "comet",
                                                                 "flops_profiler",
                                                                 "comms_logger",
                                                                 "zero_allow_untested_optimizer",
                                                                 "zero_force_ds_cpu_optimizer",
                                                                 "checkpoint",
                                                                 "disable_allgather",
                                                                 "seed",
                                                                 "aio",
                                                                 "data_efficiency",
                                                                 "curriculum_learning",
                                                                 "nebula"});
constexpr auto kZeroWithoutEffect = std::to_array<std::string_view>(
    {"contiguous_gradients", "stage3_gather_16bit_weights_on_model_save",
     "stage3_gather_fp16_weights_on_model_save", "load_from_fp32_weights", "elastic_checkpoint",
     "ignore_unused_parameters", "find_unused_parameters", "legacy_stage1", "round_robin_gradients",
     "allgather_partitions", "allgather_bucket_size", "reduce_scatter", "memory_efficient_linear"});

// A number of elements of ZeRO, under DeepSpeed's name.
struct ZeroElements {
  std::string_view key;
  bool stage3;
  // The Trainer's value for "auto", from the hidden size h: 100 x h x h x `square` + h x `linear`.
  int square_percent;
  int linear;
};
constexpr auto kElements =
    std::to_array<ZeroElements>({{"reduce_bucket_size", false, 100, 0},
                                 {"stage3_prefetch_bucket_size", true, 90, 0},
                                 {"stage3_param_persistence_threshold", true, 0, 10},
                                 {"stage3_max_live_parameters", true, 0, 0},
                                 {"stage3_max_reuse_distance", true, 0, 0},
                                 {"sub_group_size", true, 0, 0},
                                 {"zero_hpz_partition_size", true, 0, 0}});

void import_elements(Settings& zero, Value& policy, std::int64_t stage, std::int64_t hidden) {
  for (const ZeroElements& known : kElements) {
    const auto given = zero.integer(known.key);
    std::int64_t elements = given.value_or(0);
    const bool filled =
        zero.is_auto(known.key) && hidden > 0 && (known.square_percent > 0 || known.linear > 0);
    if (!given && !filled) continue;
    if (filled) elements = hidden * hidden * known.square_percent / 100 + hidden * known.linear;
    if (known.stage3 && stage < 3) {
      zero.without_effect(known.key, "of stage 3 only");
      continue;
    }
    if (known.key == "sub_group_size" && elements == 0) {
      zero.without_effect(known.key, "0 is DeepSpeed's default");
      continue;
    }
    const std::string text = fmt::to_string(elements);
    zero.becomes(known.key, fmt::format("policies.zero.{}: {}{}", known.key, text,
                                        filled ? ", as the Trainer fills it in" : ""));
    set_entry(policy, std::string(known.key), zero.location(known.key),
              scalar_at(text, zero, known.key));
  }
}

// Imports offload_optimizer or offload_param: `device` is cpu, nvme or none. A ratio leaves a part
// of the optimizer on the device (ZeRO-Offload++), which is a policy of its own.
void import_offload(Settings& zero, std::string_view key, std::int64_t stage,
                    ScenarioDraft& draft) {
  Settings offload = zero.group(key);
  const bool parameters = key == "offload_param";
  const auto device = offload.word("device");
  constexpr auto kTransport = std::to_array<std::string_view>(
      {"pin_memory", "nvme_path", "buffer_count", "buffer_size", "max_in_cpu", "fast_init",
       "pipeline_read", "pipeline_write", "pipeline"});
  const bool leaves = device && (*device == "cpu" || *device == "nvme");
  const double ratio = parameters ? 1 : offload.number("ratio", between(0, 1)).value_or(1);
  if (device && *device == "none") {
    offload.without_effect("device");
  } else if (leaves && parameters && stage < 3) {
    offload.without_effect("device", "of stage 3 only");
  } else if (leaves && parameters) {
    offload.becomes("device", draft.offload_parameters(*device, offload.location("device")));
  } else if (leaves && ratio < 1) {
    const std::string tier = *device == "nvme" ? "nvme" : "host";
    Value& policy = draft.policy("offload_optimizer", zero.location(key));
    set_entry(policy, "tier", offload.location("device"), scalar_at(tier, offload, "device"));
    set_entry(policy, "ratio", offload.location("ratio"),
              scalar_at(fmt::format("{:g}", ratio), offload, "ratio"));
    offload.becomes("device", "policies.offload_optimizer.tier: " + tier);
    offload.becomes("ratio", fmt::format("policies.offload_optimizer.ratio: {:g}", ratio));
  } else if (leaves) {
    offload.becomes("device", draft.offload_optimizer(*device, offload.location("device")));
    if (offload.has("ratio")) offload.without_effect("ratio", "all of it, DeepSpeed's default");
  }
  offload.without_effect(kTransport);
  offload.finish();
}

void import_zero(Settings& settings, ScenarioDraft& draft) {
  if (!settings.has("zero_optimization")) return;
  Settings zero = settings.group("zero_optimization");
  const std::int64_t stage = zero.integer("stage", between(0, 3)).value_or(0);
  if (stage == 0) {
    zero.becomes("stage", "no policy: data-parallel ranks hold everything");
  } else {
    Value& policy = draft.policy("zero", settings.location("zero_optimization"));
    set_entry(policy, "stage", zero.location("stage"),
              scalar_at(fmt::to_string(stage), zero, "stage"));
    zero.becomes("stage", fmt::format("policies.zero.stage: {}", stage));
    import_elements(zero, policy, stage, draft.hidden_size);
    if (const auto overlap = zero.flag("overlap_comm")) {
      set_entry(policy, "overlap_comm", zero.location("overlap_comm"),
                scalar_at(*overlap ? "true" : "false", zero, "overlap_comm"));
      zero.becomes("overlap_comm", "policies.zero.overlap_comm");
    }
    import_offload(zero, "offload_optimizer", stage, draft);
    import_offload(zero, "offload_param", stage, draft);
    // The switch of releases before 0.4.
    if (zero.flag("cpu_offload").value_or(false)) {
      zero.becomes("cpu_offload", draft.offload_optimizer("cpu", zero.location("cpu_offload")));
    }
  }
  for (const char* key :
       {"zero_hpz_partition_size", "zero_quantized_weights", "zero_quantized_gradients",
        "zero_quantized_nontrainable_weights", "mics_shard_size"})
    zero.not_understood(key, "ZeRO++ and MiCS are not simulated: shards are whole and 16-bit");
  zero.without_effect(kZeroWithoutEffect);
  zero.finish();
}

// Imports `bf16` or `fp16`: {enabled: true, ...}.
void import_type(Settings& settings, const std::string& type, ScenarioDraft& draft) {
  if (!settings.has(type)) return;
  Settings group = settings.group(type);
  const bool enabled = group.flag("enabled").value_or(false);
  if (enabled) {
    draft.set_low_precision(scalar_at(type == "bfloat16" ? "bf16" : type, group, "enabled"));
    group.becomes("enabled", fmt::format("training.precision: {}_mixed", type));
  } else if (group.has("enabled")) {
    group.without_effect("enabled", "off");
  }
  const auto scale = group.number("loss_scale", at_least(0));
  if (enabled && scale) {
    draft.loss_scale = scalar_at(*scale > 0 ? fmt::format("{:g}", *scale) : std::string("dynamic"),
                                 group, "loss_scale");
    group.becomes("loss_scale", fmt::format("training.loss_scale: {}", draft.loss_scale.scalar));
  }
  constexpr auto kScaling =
      std::to_array<std::string_view>({"loss_scale", "initial_scale_power", "loss_scale_window",
                                       "hysteresis", "consecutive_hysteresis", "min_loss_scale"});
  group.without_effect(kScaling);
  group.finish();
}

// Returns the optimizer here that has the states of one of DeepSpeed's types; empty if none has.
std::string_view optimizer_of(std::string_view type, bool decoupled) {
  constexpr auto kSame =
      std::to_array<std::string_view>({"adamw", "lion", "adagrad", "sgd", "lamb", "muon"});
  if (type == "adam") return decoupled ? "adamw" : "adam";
  const auto* const same = std::find(kSame.begin(), kSame.end(), type);
  return same == kSame.end() ? std::string_view() : *same;
}

void import_optimizer_group(Settings& settings, ScenarioDraft& draft) {
  if (!settings.has("optimizer")) return;
  Settings optimizer = settings.group("optimizer");
  const std::string type = optimizer.word("type").value_or("");
  Settings parameters = optimizer.group("params");
  const bool decoupled = parameters.flag("adam_w_mode").value_or(true);
  const bool torch = parameters.flag("torch_adam").value_or(false);
  const std::string ours(optimizer_of(type, decoupled));
  if (ours.empty()) {
    optimizer.not_understood("type", "no optimizer here has its states; adamw is taken");
  } else {
    // DeepSpeed's FusedAdam has no temporaries.
    const bool fused = ours.starts_with("adam") && !torch && !draft.offloads_optimizer();
    const Location location = optimizer.value("type")->location;
    Value value = scalar_at(ours, location);
    if (fused) {
      Value mapping = mapping_value(location);
      set_entry(mapping, "name", location, std::move(value));
      set_entry(mapping, "implementation", location, scalar_at("fused", location));
      value = std::move(mapping);
    }
    draft.set_training("optimizer", std::move(value));
    optimizer.becomes("type",
                      fmt::format("training.optimizer: {}{}", ours, fused ? ", fused" : ""));
  }
  constexpr auto kHyperparameters = std::to_array<std::string_view>(
      {"lr", "betas", "eps", "weight_decay", "momentum", "adam_w_mode", "torch_adam",
       "bias_correction", "max_coeff", "min_coeff"});
  parameters.without_effect(kHyperparameters);
  parameters.finish();
  optimizer.finish();
}

void import_batches(Settings& settings, ScenarioDraft& draft) {
  if (const auto micro = settings.integer("train_micro_batch_size_per_gpu", at_least(1))) {
    draft.set_training("micro_batch", scalar_at(fmt::to_string(*micro), settings,
                                                "train_micro_batch_size_per_gpu"));
    settings.becomes("train_micro_batch_size_per_gpu",
                     fmt::format("training.micro_batch: {}", *micro));
  }
  if (const auto accumulate = settings.integer("gradient_accumulation_steps", at_least(1))) {
    draft.set_training("accumulate", scalar_at(fmt::to_string(*accumulate), settings,
                                               "gradient_accumulation_steps"));
    settings.becomes("gradient_accumulation_steps",
                     fmt::format("training.accumulate: {}", *accumulate));
  }
  if (const auto batch = settings.integer("train_batch_size", at_least(1))) {
    draft.global_batch = *batch;
    draft.global_batch_location = settings.location("train_batch_size");
    settings.becomes("train_batch_size", "micro_batch x accumulate x hardware.count");
  }
}

}  // namespace
}  // namespace import_deepspeed_detail

void import_deepspeed(Settings& settings, ScenarioDraft& draft) {
  draft.engine = TrainingEngine::kDeepSpeed;
  import_deepspeed_detail::import_batches(settings, draft);
  import_deepspeed_detail::import_zero(settings, draft);
  import_deepspeed_detail::import_type(settings, "bf16", draft);
  import_deepspeed_detail::import_type(settings, "bfloat16", draft);
  import_deepspeed_detail::import_type(settings, "fp16", draft);
  import_deepspeed_detail::import_optimizer_group(settings, draft);
  if (const auto norm = settings.number("gradient_clipping", at_least(0))) {
    if (*norm > 0) {
      draft.set_training("clip_grad_norm",
                         scalar_at(fmt::format("{:g}", *norm), settings, "gradient_clipping"));
      settings.becomes("gradient_clipping", fmt::format("training.clip_grad_norm: {:g}", *norm));
    } else {
      settings.without_effect("gradient_clipping", "off");
    }
  }
  if (settings.has("data_types")) {
    Settings types = settings.group("data_types");
    if (types.word("grad_accum_dtype").value_or("") == "fp32") {
      draft.set_training("gradient_dtype", scalar_at("fp32", types, "grad_accum_dtype"));
      types.becomes("grad_accum_dtype", "training.gradient_dtype: fp32");
    }
    types.finish();
  }
  settings.not_understood(
      "activation_checkpointing",
      "acts only where the model calls deepspeed.checkpointing; add checkpoint_every then");
  import_tensor_parallel(settings, draft);
  settings.not_understood("communication_data_type",
                          "gradients are sent in the type that they have here");
  settings.not_understood("compile", "write training.compile: inductor");
  settings.not_understood("elasticity", "write policies: [memory_elastic: {deepspeed: {...}}]");
  settings.without_effect(import_deepspeed_detail::kWithoutEffect);
  settings.finish();
}

void import_deepspeed_file(Settings& settings, std::string_view key, ScenarioDraft& draft) {
  const Value* given = settings.value(key);
  if (given == nullptr) return;
  if (given->is_mapping()) {
    Settings group = settings.group(key);
    import_deepspeed(group, draft);
    return;
  }
  // The tools read the path from the folder in which they are started; also tried is the folder of
  // the file that names it.
  namespace fs = std::filesystem;
  const fs::path folder = folder_of_file(given->location.file);
  for (const fs::path& path : {fs::path(given->scalar), folder / given->scalar,
                               folder / fs::path(given->scalar).filename()}) {
    if (given->scalar.empty() || !is_file(path.string())) continue;
    settings.becomes(key, "the settings of that file");
    // Locations in the draft are copies, so the document may go.
    const Value document = read_document(path.string());
    Settings inner(&document, "", settings.report());
    import_deepspeed(inner, draft);
    return;
  }
  draft.engine = TrainingEngine::kDeepSpeed;
  settings.not_understood(key, "there is no such file");
}

}  // namespace tidemark
