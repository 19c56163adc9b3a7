#include "scenarios/import/draft.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "graph/core/errors.hpp"
#include "scenarios/read/short_form.hpp"

namespace tidemark {
namespace draft_detail {
namespace {

// A name of transformers' OptimizerNames, of axolotl or bitsandbytes, and ours.
struct OptimizerName {
  std::string_view name;
  std::string_view ours;
  std::string_view implementation = "";
};
constexpr auto kOptimizers = std::to_array<OptimizerName>({
    {"adamw", "adamw"},
    {"adamw_torch", "adamw"},
    {"adamw_hf", "adamw"},
    {"adamw_torch_fused", "adamw", "fused"},
    {"adamw_apex_fused", "adamw", "fused"},
    {"paged_adamw", "adamw"},
    {"paged_adamw_32bit", "adamw"},
    {"adamw_bnb_8bit", "adamw_8bit"},
    {"adamw_8bit", "adamw_8bit"},
    {"paged_adamw_8bit", "paged_adamw_8bit"},
    {"adamw_torch_8bit", "adamw_8bit", "torchao"},
    {"ao_adamw_8bit", "adamw_8bit", "torchao"},
    {"adamw_torch_4bit", "adamw_4bit"},
    {"ao_adamw_4bit", "adamw_4bit"},
    {"adafactor", "adafactor"},
    {"sgd", "sgd"},
    {"adagrad", "adagrad"},
    {"rmsprop", "rmsprop"},
    {"rmsprop_bnb_32bit", "rmsprop"},
    {"lion_32bit", "lion"},
    {"lion_pytorch", "lion"},
    {"muon", "muon"},
    {"galore_adamw", "galore"},
    {"apollo_adamw", "apollo"},
});

}  // namespace
}  // namespace draft_detail

ScenarioDraft::ScenarioDraft()
    : training(mapping_value({})), hardware(mapping_value({})), policies(mapping_value({})) {}

void ScenarioDraft::set_training(const std::string& key, Value value) {
  const Location location = value.location;
  set_entry(training, key, location, std::move(value));
}

Value& ScenarioDraft::policy(const std::string& name, const Location& location) {
  if (policies.find(name) == nullptr) set_entry(policies, name, location, mapping_value(location));
  return *policies.find(name);
}

bool ScenarioDraft::has_policy(std::string_view name) const {
  return policies.find(name) != nullptr;
}

std::string ScenarioDraft::offload_optimizer(std::string_view device, const Location& location) {
  optimizer_tier = scalar_at(device == "nvme" ? "nvme" : "host", location);
  return "policies.zero.offload.optimizer: " + optimizer_tier.scalar;
}

std::string ScenarioDraft::offload_parameters(std::string_view device, const Location& location) {
  parameter_tier = scalar_at(device == "nvme" ? "nvme" : "host", location);
  return fmt::format("policies.zero.offload.parameters: {}; on one GPU policies.offload_parameters",
                     parameter_tier.scalar);
}

namespace draft_detail {
namespace {

// One GPU has no partitions of the parameters: they move whole.
void complete_offload(ScenarioDraft& draft) {
  const Value& parameters = draft.parameter_tier;
  const bool shares = draft.ranks > 1;
  Value offload = mapping_value(draft.optimizer_tier.location);
  if (!draft.optimizer_tier.is_null())
    set_entry(offload, "optimizer", draft.optimizer_tier.location, draft.optimizer_tier);
  if (!parameters.is_null() && shares)
    set_entry(offload, "parameters", parameters.location, parameters);
  if (!offload.entries.empty()) {
    const Location location = offload.entries.front().location;
    set_entry(draft.policy("zero", location), "offload", location, std::move(offload));
  }
  if (!parameters.is_null() && !shares) {
    set_entry(draft.policy("offload_parameters", parameters.location), "tier", parameters.location,
              parameters);
  }
}

void complete_precision(ScenarioDraft& draft) {
  const Value& type = draft.low_precision;
  const bool low = !type.is_null();
  std::string precision = "fp32";
  if (low && draft.engine == TrainingEngine::kDeepSpeed && !draft.low_frozen) {
    precision = type.scalar + "_mixed";
  } else if (low && draft.engine == TrainingEngine::kFsdp && !draft.low_frozen &&
             !draft.low_unmixed) {
    Value& fsdp = draft.policy("fsdp", type.location);
    for (const char* key : {"param_dtype", "reduce_dtype"})
      set_entry(fsdp, key, type.location, type);
  } else if (low) {
    // peft makes adapters in fp32, so that a base of 16 bits computes under autocast, too;
    // DeepSpeed and a model that merely is of the type have none.
    const bool narrow = draft.low_model || draft.low_frozen;
    const bool autocasts = draft.engine != TrainingEngine::kDeepSpeed && !draft.low_unmixed;
    const bool adapts = autocasts && draft.has_policy("lora");
    precision = narrow && !adapts ? type.scalar : type.scalar + "_autocast";
    if (narrow && adapts) {
      Value& lora = draft.policy("lora", type.location);
      if (lora.find("base") == nullptr) set_entry(lora, "base", type.location, type);
    }
  } else if (draft.tf32) {
    precision = "tf32";
  }
  draft.set_training("precision", scalar_at(precision, type.location));
  if (low && type.scalar == "fp16") {
    draft.set_training("loss_scale", draft.loss_scale.is_null()
                                         ? scalar_at("dynamic", type.location)
                                         : draft.loss_scale);
  }
}

// A step's samples are micro-batch x accumulation x GPUs: what is not said follows, by the rules of
// DeepSpeed's _set_batch_related_parameters. Where both others are given, the GPUs follow.
void complete_batch(ScenarioDraft& draft) {
  const std::int64_t global_batch = draft.global_batch;
  if (global_batch == 0) return;
  const auto number = [&](const char* key) -> std::optional<std::int64_t> {
    const Value* value = draft.training.find(key);
    if (value == nullptr) return std::nullopt;
    return std::stoll(value->scalar);
  };
  const std::optional<std::int64_t> given = number("micro_batch");
  const std::optional<std::int64_t> accumulate = number("accumulate");
  // Divides in turn: products of what a file says may not fit into 63 bits.
  std::int64_t rest = global_batch;
  const auto divide = [&](std::int64_t by) {
    const bool whole = rest % by == 0;
    rest = whole ? rest / by : 0;
  };
  const std::int64_t gpus = std::max<std::int64_t>(draft.ranks, 1);
  divide(given.value_or(1));
  divide(accumulate.value_or(1));
  if (draft.ranks == 0 && given && accumulate && rest > 0) {
    draft.ranks = rest;
    return;
  }
  divide(gpus);
  if (rest == 0 || (given && accumulate && rest != 1)) {
    const std::string other = given ? fmt::format("micro-batches of {}", *given) : "micro-batches";
    throw UserError(draft.global_batch_location, "",
                    fmt::format("{} samples a step cannot be divided into {} on {} GPU{}{}; write "
                                "numbers that fit together, or --count",
                                global_batch, other, gpus, gpus == 1 ? "" : "s",
                                accumulate ? fmt::format(", {} at a time", *accumulate) : ""));
  }
  if (!given) draft.set_training("micro_batch", scalar_at(fmt::to_string(rest), Location{}));
  if (given && !accumulate)
    draft.set_training("accumulate", scalar_at(fmt::to_string(rest), Location{}));
}

// The Trainer takes peft's units where it trains adapters (_fsdp_qlora_plugin_updates in
// transformers/trainer.py). Accelerate does not know them in version 2.
void complete_units(ScenarioDraft& draft) {
  if (!draft.has_policy("lora") || !draft.has_policy("fsdp")) return;
  Value& fsdp = draft.policy("fsdp", {});
  const Value* version = fsdp.find("version");
  if (version == nullptr || version->scalar != "1") return;
  set_entry(fsdp, "trained_units", fsdp.location, scalar_at("each", fsdp.location));
}

}  // namespace
}  // namespace draft_detail

void ScenarioDraft::complete() {
  draft_detail::complete_units(*this);
  draft_detail::complete_precision(*this);
  draft_detail::complete_batch(*this);
  draft_detail::complete_offload(*this);
  if (ranks > 1) set_entry(hardware, "count", {}, scalar_at(fmt::to_string(ranks), Location{}));
  if (machines == 1 || ranks <= 1) return;
  if (ranks % machines != 0) {
    throw UserError(machines_location, "",
                    fmt::format("{} GPUs cannot be divided among {} machines", ranks, machines));
  }
  set_entry(hardware, "node", machines_location,
            scalar_at(fmt::to_string(ranks / machines), machines_location));
}

void ScenarioDraft::set_low_precision(Value type) {
  const bool of_training = !low_precision.is_null() && !low_model && !low_frozen;
  if (of_training && low_precision.scalar != type.scalar) {
    throw UserError(type.location, "",
                    fmt::format("{} contradicts {}, which is asked for as well; leave one of them "
                                "on",
                                type.scalar, low_precision.scalar));
  }
  low_precision = std::move(type);
  low_unmixed = false;
}

Value scalar_at(std::string text, const Settings& settings, std::string_view key) {
  const Value* value = settings.value(key);
  return scalar_at(std::move(text), value == nullptr ? settings.location(key) : value->location);
}

Value scalar_at(std::string text, const Location& location) {
  return text_value(std::move(text), location);
}

void ask_for_input_gradients(ScenarioDraft& draft) {
  if (!draft.has_policy("lora") || !draft.has_policy("checkpoint_every")) return;
  const Value* reentrant = draft.policy("checkpoint_every", {}).find("reentrant");
  if (reentrant != nullptr && reentrant->scalar == "false") return;
  Value& lora = draft.policy("lora", {});
  set_entry(lora, "input_gradients", lora.location, scalar_at("true", lora.location));
}

void import_optimizer(Settings& settings, std::string_view key, ScenarioDraft& draft) {
  const auto name = settings.word(key);
  if (!name) return;
  for (const draft_detail::OptimizerName& known : draft_detail::kOptimizers) {
    if (known.name != *name) continue;
    const Location location = settings.value(key)->location;
    Value optimizer = scalar_at(std::string(known.ours), location);
    std::string outcome = fmt::format("training.optimizer: {}", known.ours);
    if (!known.implementation.empty()) {
      Value mapping = mapping_value(location);
      set_entry(mapping, "name", location, std::move(optimizer));
      set_entry(mapping, "implementation", location,
                scalar_at(std::string(known.implementation), location));
      optimizer = std::move(mapping);
      outcome += fmt::format(", {}", known.implementation);
    }
    if (name->starts_with("paged_adamw") && *name != "paged_adamw_8bit")
      outcome += " (its pages count as on the device)";
    settings.becomes(key, outcome);
    draft.set_training("optimizer", std::move(optimizer));
    return;
  }
  settings.not_understood(key, "no optimizer here has its states; adamw is taken");
}

void leave_out_kernels(ScenarioDraft& draft, std::span<const std::string_view> kernels,
                       const Location& location) {
  Value& policy = draft.policy("liger_kernels", location);
  for (const std::string_view kernel : kernels)
    set_entry(policy, std::string(kernel), location, scalar_at("false", location));
}

}  // namespace tidemark
