#include "scenarios/read/other_names.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <span>
#include <string_view>

#include <fmt/format.h>

#include "graph/core/errors.hpp"
#include "graph/models/preset.hpp"
#include "scenarios/read/listed_numbers.hpp"

namespace tidemark {
namespace other_names_detail {
namespace {

struct OtherKey {
  std::string_view name;
  std::string_view ours;  // "{}" stands for its value
};
// Keys of TrainingArguments, torchtune, axolotl, DeepSpeed and nanoGPT, at the top of a scenario or
// in `training`.
constexpr auto kKeys = std::to_array<OtherKey>({
    {"batch_size", "training.micro_batch: {}"},
    {"per_device_train_batch_size", "training.micro_batch: {}"},
    {"per_device_batch_size", "training.micro_batch: {}"},
    {"train_micro_batch_size_per_gpu", "training.micro_batch: {}"},
    {"micro_batch_size", "training.micro_batch: {}"},
    {"train_batch_size", "training.global_batch: {}"},
    {"global_batch_size", "training.global_batch: {}"},
    {"gradient_accumulation_steps", "training.accumulate: {}"},
    {"accumulate_grad_batches", "training.accumulate: {}"},
    {"gradient_accumulation", "training.accumulate: {}"},
    {"max_seq_length", "training.sequence: {}"},
    {"max_seq_len", "training.sequence: {}"},
    {"max_length", "training.sequence: {}"},
    {"seq_len", "training.sequence: {}"},
    {"seq_length", "training.sequence: {}"},
    {"sequence_length", "training.sequence: {}"},
    {"sequence_len", "training.sequence: {}"},
    {"context_length", "training.sequence: {}"},
    {"block_size", "training.sequence: {}"},
    {"cutoff_len", "training.sequence: {}"},
    {"gradient_checkpointing", "policies: [checkpoint_every: {{period: 1}}]"},
    {"activation_checkpointing", "policies: [checkpoint_every: {{period: 1}}]"},
    {"enable_activation_checkpointing", "policies: [checkpoint_every: {{period: 1}}]"},
    {"activation_offloading", "policies: [offload_activations]"},
    {"enable_activation_offloading", "policies: [offload_activations]"},
    {"bf16", "training.precision: bf16_autocast, or bf16 for a model in bfloat16"},
    {"fp16", "training.precision: fp16_autocast"},
    {"tf32", "training.precision: tf32"},
    {"dtype", "training.precision: bf16, fp16 or fp32"},
    {"torch_dtype", "training.precision: bf16, fp16 or fp32"},
    {"mixed_precision", "training.precision: bf16_autocast or fp16_autocast"},
    {"attn_implementation", "training.attention: flash or math"},
    {"attention_implementation", "training.attention: flash or math"},
    {"num_gpus", "hardware.count: {}"},
    {"n_gpus", "hardware.count: {}"},
    {"gpus", "hardware.count: {}"},
    {"world_size", "hardware.count: {}"},
    {"nproc_per_node", "hardware.count: {}"},
    {"gpu", "hardware: {}"},
    {"device", "hardware: and the name of a GPU, as tidemark list gpus has them"},
});

// Keys that change no figure.
constexpr auto kNotNeeded = std::to_array<std::string_view>(
    {"lr", "learning_rate", "epochs", "num_epochs", "num_train_epochs", "max_steps", "seed",
     "warmup_steps", "warmup_ratio", "lr_scheduler_type", "logging_steps", "save_steps"});

struct OtherValue {
  std::string_view key;
  std::string_view name;
  std::string_view ours;
};
constexpr auto kValues = std::to_array<OtherValue>({
    {"mode", "eval", "forward"},
    {"mode", "evaluate", "forward"},
    {"mode", "inference", "forward, or generate to write text"},
    {"mode", "generation", "generate"},
    {"mode", "training", "train"},
    {"precision", "amp", "fp16_autocast or bf16_autocast"},
    {"precision", "mixed", "fp16_autocast or bf16_autocast"},
    {"precision", "16-mixed", "fp16_autocast"},
    {"precision", "bf16-mixed", "bf16_autocast"},
    {"precision", "bf16-true", "bf16"},
    {"precision", "float16", "fp16"},
    {"precision", "half", "fp16"},
    {"precision", "bfloat16", "bf16"},
    {"precision", "float32", "fp32"},
    {"precision", "fp8", "fp8_mixed"},
    {"attention", "sdpa", "flash, whose memory PyTorch's scaled_dot_product_attention has"},
    {"attention", "flash_attention_2", "flash"},
    {"attention", "flash_attention", "flash"},
    {"attention", "xformers", "flash"},
    {"attention", "eager", "math"},
    {"optimizer", "adamw_torch", "adamw"},
    {"optimizer", "adamw_hf", "adamw"},
    {"optimizer", "adamw_torch_fused", "{name: adamw, implementation: fused}"},
    {"optimizer", "adamw_bnb_8bit", "adamw_8bit"},
    {"optimizer", "adam8bit", "adamw_8bit"},
    {"optimizer", "paged_adamw_bnb_8bit", "paged_adamw_8bit"},
    {"optimizer", "paged_adamw", "paged_adamw_8bit"},
    {"optimizer", "galore_adamw", "{name: galore, rank: 128}"},
    {"optimizer", "apollo_adamw", "{name: apollo, rank: 256}"},
    {"optimizer", "AdamW", "adamw"},
    {"optimizer", "Adam", "adam"},
    {"optimizer", "SGD", "sgd"},
});

// Keys that people write in `hardware`, "{}" being their value.
constexpr auto kHardwareKeys = std::to_array<OtherKey>({
    {"gpus", "hardware.count: {}"},
    {"num_gpus", "hardware.count: {}"},
    {"n_gpus", "hardware.count: {}"},
    {"devices", "hardware.count: {}"},
    {"world_size", "hardware.count: {}"},
    {"nproc_per_node", "hardware.node: {}"},
    {"gpus_per_node", "hardware.node: {}"},
    {"memory", "hardware.hbm.capacity: {}"},
    {"vram", "hardware.hbm.capacity: {}"},
    {"capacity", "hardware.hbm.capacity: {}"},
    {"peer_to_peer", "hardware.links.peer_to_peer: {}"},
    {"nvlink", "hardware.links.nvlink: {}"},
    {"bandwidth", "hardware.hbm.bandwidth: {}"},
});

// Words that people list under `policies`, each with what to write for it.
struct OtherPolicy {
  std::string_view name;
  std::string_view ours;
};
constexpr auto kPolicies = std::to_array<OtherPolicy>({
    {"gradient_checkpointing", "policies: [checkpoint_every: {period: 1}]"},
    {"activation_checkpointing", "policies: [checkpoint_every: {period: 1}]"},
    {"checkpointing", "policies: [checkpoint_every: {period: 1}]"},
    {"recompute", "policies: [checkpoint_every: {period: 1}]"},
    {"full_recompute", "policies: [checkpoint_every: {period: 1}]"},
    {"zero1", "policies: [zero: {stage: 1}]"},
    {"zero2", "policies: [zero: {stage: 2}]"},
    {"zero3", "policies: [zero: {stage: 3}]"},
    {"zero-1", "policies: [zero: {stage: 1}]"},
    {"zero-2", "policies: [zero: {stage: 2}]"},
    {"zero-3", "policies: [zero: {stage: 3}]"},
    {"deepspeed", "policies: [zero: {stage: 2}], or tidemark import of its file"},
    {"fsdp1", "policies: [fsdp: {version: 1}]"},
    {"fsdp2", "policies: [fsdp]"},
    {"fully_shard", "policies: [fsdp]"},
    {"ddp", "hardware.count and the number of GPUs; data_parallel has the options"},
    {"qlora", "policies: [lora: {rank: 16, base: nf4}]"},
    {"cpu_offload", "policies: [offload_optimizer], or offload_parameters or offload_activations"},
    {"offload", "policies: [offload_activations], or offload_optimizer or offload_parameters"},
    {"activation_offloading", "policies: [offload_activations]"},
    {"optimizer_offload", "policies: [offload_optimizer]"},
    {"param_offload", "policies: [offload_parameters]"},
    {"sequence_parallel", "policies: [tensor_parallel: {size: 2, sequence: true}]"},
    {"ring_attention", "policies: [context_parallel: {size: 2, kind: ring}]"},
    {"ulysses", "policies: [context_parallel: {size: 2, kind: ulysses}]"},
    {"mixed_precision", "training.precision: bf16_autocast or fp16_autocast"},
    {"amp", "training.precision: fp16_autocast or bf16_autocast"},
    {"fp8", "training.precision: fp8_mixed"},
    {"flash_attention", "training.attention: flash"},
    {"gradient_accumulation", "training.accumulate and the number of micro-batches"},
    {"torch_compile", "training.compile: inductor"},
    {"compile", "training.compile: inductor"},
});

// Keys of `training` with one value each, of which people list several.
constexpr auto kSingle = std::to_array<std::string_view>(
    {"micro_batch", "sequence", "accumulate", "precision", "optimizer", "attention", "framework"});

// Policies whose one number is given without its name.
struct MainParameter {
  std::string_view policy;
  std::string_view parameter;
};
constexpr auto kMainParameters = std::to_array<MainParameter>({
    {"checkpoint_every", "period"},
    {"checkpoint", "first"},
    {"checkpoint_sequential", "segments"},
    {"offload_activations", "prefetch"},
    {"offload_optimizer", "ratio"},
    {"te_offload", "layers"},
    {"revolve", "checkpoints"},
});

std::string lower(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return result;
}

std::string path_of(std::string_view parent, std::string_view key) {
  return parent.empty() ? std::string(key) : fmt::format("{}.{}", parent, key);
}

// Returns a value on one line, as it is shown in an error.
std::string shown(const Value& value) {
  return value.is_scalar() ? excerpt(value.scalar) : std::string("...");
}

// Returns what to write for a word under `policies`, whatever its case; empty where it is ours, or
// is not known.
std::string our_policy(const std::string& word) {
  for (const OtherPolicy& other : kPolicies) {
    if (other.name == lower(word)) return std::string(other.ours);
  }
  return {};
}

// Returns our name of another tool's value; the value itself where it is ours, or is not known.
std::string our_value(std::string_view key, const Value& value) {
  for (const OtherValue& other : kValues) {
    if (value.is_scalar() && other.key == key && other.name == value.scalar)
      return std::string(other.ours);
  }
  return shown(value);
}

bool is_switched_off(const Value& value) {
  return value.is_null() ||
         (value.is_scalar() && (value.scalar == "false" || value.scalar == "no"));
}

void check_keys(const Value& mapping, std::string_view parent) {
  for (const Value::Entry& entry : mapping.entries) {
    if (entry.key == "optim") {
      throw UserError(entry.location, path_of(parent, entry.key),
                      fmt::format("unknown key; write training.optimizer: {}",
                                  our_value("optimizer", entry.value)));
    }
    const auto* other = std::find_if(kKeys.begin(), kKeys.end(),
                                     [&](const OtherKey& key) { return key.name == entry.key; });
    if (other != kKeys.end() && is_switched_off(entry.value)) {
      throw UserError(entry.location, path_of(parent, entry.key),
                      "unknown key; what it switches off is off by default, so leave it out");
    }
    if (other != kKeys.end()) {
      throw UserError(entry.location, path_of(parent, entry.key),
                      fmt::format("unknown key; write {}",
                                  fmt::format(fmt::runtime(other->ours), shown(entry.value))));
    }
    if (std::find(kNotNeeded.begin(), kNotNeeded.end(), entry.key) != kNotNeeded.end()) {
      throw UserError(entry.location, path_of(parent, entry.key),
                      "unknown key; no figure depends on it, so leave it out");
    }
  }
}

void check_hardware(const Value& hardware) {
  for (const Value::Entry& entry : hardware.entries) {
    for (const OtherKey& other : kHardwareKeys) {
      if (other.name != entry.key) continue;
      throw UserError(entry.location, path_of("hardware", entry.key),
                      fmt::format("unknown key; write {}",
                                  fmt::format(fmt::runtime(other.ours), shown(entry.value))));
    }
  }
}

void check_training(const Value& training) {
  check_keys(training, "training");
  for (const Value::Entry& entry : training.entries) {
    const Value& value = entry.value;
    const bool single = std::find(kSingle.begin(), kSingle.end(), entry.key) != kSingle.end();
    std::string items = listed_numbers(value);
    if (single && (value.is_sequence() || !items.empty())) {
      const std::string one = number_in_groups(items);  // of a text: a list in brackets is one
      for (const Value& item : value.items)
        items += fmt::format("{}{}", items.empty() ? "" : ", ", shown(item));
      throw UserError(
          value.location, path_of("training", entry.key),
          fmt::format(
              "expected one value, found a list; to try each, write sweep: "
              "{{matrix: {{training.{}: [{}]}}}}{}",
              entry.key, items,
              one.empty() ? "" : "; where commas part the digits of one number, write " + one));
    }
    for (const OtherValue& other : kValues) {
      if (!value.is_scalar() || other.key != entry.key || other.name != value.scalar) continue;
      throw UserError(value.location, path_of("training", entry.key),
                      fmt::format("{} is another tool's name; write {}",
                                  tidemark::quoted_excerpt(value.scalar), other.ours));
    }
  }
}

void check_policy_word(const std::string& word, const Location& where) {
  const std::string ours = our_policy(word);
  if (ours.empty()) return;
  throw UserError(
      where, "policies",
      fmt::format("{} is another tool's name; write {}", tidemark::quoted_excerpt(word), ours));
}

void check_policies(const Value& policies) {
  if (policies.is_scalar() && (policies.scalar == "none" || policies.scalar == "false")) {
    throw UserError(policies.location, "policies",
                    fmt::format("expected a list of policies, found {}; write policies: []",
                                tidemark::quoted_excerpt(policies.scalar)));
  }
  if (policies.is_scalar() && !policies.is_null()) {
    check_policy_word(policies.scalar, policies.location);
    const auto* known =
        std::find_if(kMainParameters.begin(), kMainParameters.end(),
                     [&](const MainParameter& main) { return main.policy == policies.scalar; });
    throw UserError(
        policies.location, "policies",
        fmt::format(
            "expected a list of policies, found {}; write policies: [{}{}]",
            tidemark::quoted_excerpt(policies.scalar), excerpt(policies.scalar),
            known == kMainParameters.end() || known->parameter != "period" ? "" : ": {period: 1}"));
  }
  for (const Value& item : policies.items) {
    if (item.is_scalar()) check_policy_word(item.scalar, item.location);
    if (item.is_mapping() && !item.entries.empty())
      check_policy_word(item.entries.front().key, item.entries.front().location);
    if (!item.is_mapping() || item.entries.size() != 1) continue;
    const Value::Entry& policy = item.entries.front();
    if (!policy.value.is_scalar() || policy.value.is_null()) continue;
    for (const MainParameter& main : kMainParameters) {
      if (main.policy != policy.key) continue;
      throw UserError(policy.value.location, path_of("policies", policy.key),
                      fmt::format("expected a mapping, found {}; write {}: {{{}: {}}}",
                                  tidemark::quoted_excerpt(policy.value.scalar), policy.key,
                                  main.parameter, shown(policy.value)));
    }
  }
}

// Returns the longest name of a preset that a name on the hub contains; empty if none.
std::string preset_in(const std::string& name) {
  std::string found;
  const std::string wanted = lower(name);
  for (const ModelPreset& preset : all_presets()) {
    if (wanted.find(preset.name) == std::string::npos) continue;
    if (preset.name.size() > found.size()) found = preset.name;
  }
  return found;
}

}  // namespace
}  // namespace other_names_detail

void check_other_names(const Value& scenario) {
  other_names_detail::check_keys(scenario, "");
  if (const Value* training = scenario.find("training"))
    other_names_detail::check_training(*training);
  if (const Value* hardware = scenario.find("hardware"))
    other_names_detail::check_hardware(*hardware);
  if (const Value* policies = scenario.find("policies"))
    other_names_detail::check_policies(*policies);
}

std::string advice_for_weights(const std::string& name) {
  const std::string ending =
      other_names_detail::lower(std::filesystem::path(name).extension().string());
  constexpr auto kWeights = std::to_array<std::string_view>(
      {".pt", ".pth", ".bin", ".ckpt", ".safetensors", ".gguf", ".h5", ".npz"});
  if (std::find(kWeights.begin(), kWeights.end(), ending) != kWeights.end()) {
    return "; weights do not say what is computed: give the model's config.json, or export it with "
           "torch.onnx.export(model, inputs, \"model.onnx\", "
           "training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False)";
  }
  if (ending == ".pickle" || ending == ".pkl") {
    return fmt::format(
        "; a recorded snapshot is compared with a step that is simulated: tidemark diff SCENARIO "
        "{}",
        excerpt(name));
  }
  return {};
}

std::string advice_for_model(const std::string& name) {
  if (std::string advice = advice_for_weights(name); !advice.empty()) return advice;
  const std::filesystem::path path(name);
  const std::string ending = other_names_detail::lower(path.extension().string());
  const bool on_hub = std::count(name.begin(), name.end(), '/') == 1 && path.is_relative() &&
                      name.front() != '.' && ending != ".json" && ending != ".onnx" &&
                      ending != ".yaml" && ending != ".yml";
  if (!on_hub) return {};
  const std::string preset = other_names_detail::preset_in(path.filename().string());
  return fmt::format("; nothing is downloaded: {}save its config.json and give the path of that",
                     preset.empty() ? "" : fmt::format("the nearest preset is {}; or ", preset));
}

}  // namespace tidemark
