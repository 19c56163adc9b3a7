#include "scenarios/studies/measures.hpp"

#include <algorithm>
#include <span>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "graph/operators/family.hpp"
#include "graph/operators/registry.hpp"
#include "policies/rewrite/optimizer_kernels.hpp"
#include "scenarios/read/short_form.hpp"

namespace tidemark {
namespace measures_detail {
namespace {

constexpr std::int64_t kLargestSearched = 1 << 20;  // largest micro-batch that is searched

// Returns the value that a document would have for one plain word.
Value word(std::string text) {
  return text_value(std::move(text), {});
}

// Returns one policy of a list, with at most one parameter.
Value policy_item(const std::string& name, const std::string& parameter = "",
                  const std::string& value = "") {
  Value parameters = mapping_value({});
  if (!parameter.empty()) set_entry(parameters, parameter, {}, word(value));
  Value item = mapping_value({});
  set_entry(item, name, {}, std::move(parameters));
  return item;
}

std::string share(std::int64_t percent) {
  return fmt::format("{:g}", static_cast<double>(percent) / 100);
}

// An optimizer with smaller states than Adam's, and where it is found.
struct SmallerOptimizer {
  std::string_view name;
  std::string_view pytorch;
  std::string_view hugging_face;
};
constexpr SmallerOptimizer kSmallerOptimizers[] = {
    {"adamw_8bit", "optimizer = bitsandbytes.optim.AdamW8bit(model.parameters(), lr=lr)",
     "optim=\"adamw_bnb_8bit\""},
    {"adafactor", "optimizer = torch.optim.Adafactor(model.parameters(), lr=lr)",
     "optim=\"adafactor\""},
};

// Returns torchao's line for an optimizer whose states are on the host; empty where PyTorch has no
// class for it.
std::string offloaded_optimizer(const OptimizerSpec& optimizer) {
  const std::string_view name = name_of(optimizer.kind);
  const bool is_sgd = name == "sgd" || name == "momentum" || name == "nesterov";
  const std::string_view type = name == "adamw"  ? "AdamW"
                                : name == "adam" ? "Adam"
                                : is_sgd         ? "SGD"
                                                 : "";
  if (type.empty()) return {};
  return fmt::format(
      "optimizer = torchao.optim.CPUOffloadOptimizer(model.parameters(), torch.optim.{})", type);
}

// Returns whether the model computes statistics over the samples of a micro-batch.
bool has_batch_norm(const TrainingGraph& graph) {
  const std::span<const OperatorFamily> families = batch_norm_families();
  return std::any_of(graph.operators.begin(), graph.operators.end(), [&](const Operator& op) {
    return std::any_of(families.begin(), families.end(),
                       [&](const OperatorFamily& family) { return op.family == &family; });
  });
}

}  // namespace
}  // namespace measures_detail

bool Measures::has_policy(std::string_view name) const {
  const auto& names = scenario_.policy_names;
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool Measures::trains_graph() const {
  return scenario_.model.kind != ModelKind::kCostGraph;
}

std::vector<Measure> Measures::memory_fraction() const {
  if (scenario_.allocator->memory_fraction() >= 1) return {};
  return {{.kind = MeasureKind::kMemoryFraction,
           .text = "memory_fraction 1",
           .settings = {{"allocator.memory_fraction", measures_detail::word("1.0")}},
           .pytorch = "torch.cuda.set_per_process_memory_fraction(1.0)"}};
}

std::vector<Measure> Measures::allocator_options() const {
  std::vector<Measure> measures;
  for (const AllocatorChange& change : scenario_.allocator->changes()) {
    Measure& measure = measures.emplace_back(Measure{.kind = MeasureKind::kAllocatorOption,
                                                     .text = change.text,
                                                     .pytorch = change.environment,
                                                     .hugging_face = change.environment});
    for (const AllocatorSetting& setting : change.settings)
      measure.settings.push_back({fmt::format("allocator.{}", setting.key), setting.value});
  }
  return measures;
}

std::vector<Measure> Measures::details() const {
  std::vector<Measure> measures;
  const TrainingOptions& training = scenario_.training;
  if (!trains_graph()) return measures;
  if (training.zero_grad == ZeroGrad::kZero) {
    measures.push_back({.kind = MeasureKind::kZeroGrad,
                        .text = "zero_grad none",
                        .settings = {{"training.zero_grad", measures_detail::word("none")}},
                        .pytorch = "optimizer.zero_grad(set_to_none=True)"});
  }
  const OptimizerImplementation present = implementation_of(
      training.optimizer, *training.framework, rules_of(training.precision).master_weights);
  for (const OptimizerImplementation implementation :
       {OptimizerImplementation::kFused, OptimizerImplementation::kLoop}) {
    if (implementation == present) continue;
    const bool fused = implementation == OptimizerImplementation::kFused;
    const std::string name(name_of(implementation));
    measures.push_back(
        {.kind = MeasureKind::kOptimizerKernels,
         .text = fmt::format("optimizer {}", name),
         .settings = {{"training.optimizer.implementation", measures_detail::word(name)}},
         .pytorch = fmt::format("pass {} to the optimizer", fused ? "fused=True" : "foreach=False"),
         .hugging_face = fused && name_of(training.optimizer.kind) == "adamw"
                             ? "optim=\"adamw_torch_fused\""
                             : ""});
  }
  return measures;
}

std::optional<Measure> Measures::recompute() const {
  const bool orders = std::any_of(
      scenario_.policies.begin(), scenario_.policies.end(), [](const AnyPolicy& policy) {
        return std::holds_alternative<std::unique_ptr<SequencePolicy>>(policy);
      });
  if (!trains_graph() || orders || model_.training.blocks == 0 || has_policy("checkpoint_every"))
    return std::nullopt;
  return Measure{
      .kind = MeasureKind::kRecompute,
      .text = "checkpoint_every(period 1)",
      .policies = {measures_detail::policy_item("checkpoint_every", "period", "1")},
      .pytorch =
          "x = torch.utils.checkpoint.checkpoint(block, x, use_reentrant=True)  # each block",
      .hugging_face = "gradient_checkpointing=True"};
}

Measure Measures::recompute_first(std::int64_t count) const {
  return {.kind = MeasureKind::kRecompute,
          .text = fmt::format("checkpoint(first {})", count),
          .policies = {measures_detail::policy_item("checkpoint", "first", fmt::to_string(count))},
          .pytorch = fmt::format("x = torch.utils.checkpoint.checkpoint(block, x, "
                                 "use_reentrant=True)  # the first {} blocks",
                                 count)};
}

std::optional<Measure> Measures::offload_activations() const {
  if (!trains_graph() || has_policy("offload_activations")) return std::nullopt;
  return Measure{.kind = MeasureKind::kOffloadActivations,
                 .text = "offload_activations",
                 .policies = {measures_detail::policy_item("offload_activations")},
                 .pytorch = "with torchtune.training.OffloadActivations(use_streams=True): ...",
                 .hugging_face = "activation_offloading=True  # TRL's SFTConfig"};
}

Measure Measures::offload_part(std::int64_t percent) const {
  const std::string part = measures_detail::share(percent);
  return {.kind = MeasureKind::kOffloadActivations,
          .text = fmt::format("offload_activations(fraction {})", part),
          .policies = {measures_detail::policy_item("offload_activations", "fraction", part)}};
}

std::optional<Measure> Measures::offload_optimizer() const {
  if (!trains_graph() || has_policy("offload_optimizer")) return std::nullopt;
  return Measure{.kind = MeasureKind::kOffloadOptimizer,
                 .text = "offload_optimizer",
                 .policies = {measures_detail::policy_item("offload_optimizer")},
                 .pytorch = measures_detail::offloaded_optimizer(scenario_.training.optimizer),
                 .deepspeed = "\"offload_optimizer\": {\"device\": \"cpu\", \"pin_memory\": True}",
                 .zero_stage = 2};
}

Measure Measures::offload_optimizer_part(std::int64_t percent) const {
  const std::string part = measures_detail::share(percent);
  return {.kind = MeasureKind::kOffloadOptimizer,
          .text = fmt::format("offload_optimizer(ratio {})", part),
          .policies = {measures_detail::policy_item("offload_optimizer", "ratio", part)},
          .deepspeed = fmt::format("\"offload_optimizer\": {{\"device\": \"cpu\", \"pin_memory\": "
                                   "True, \"ratio\": {}}}",
                                   part),
          .zero_stage = 3};
}

std::optional<Measure> Measures::offload_parameters() const {
  if (!trains_graph() || has_policy("offload_parameters")) return std::nullopt;
  return Measure{.kind = MeasureKind::kOffloadParameters,
                 .text = "offload_parameters",
                 .policies = {measures_detail::policy_item("offload_parameters")},
                 .deepspeed = "\"offload_param\": {\"device\": \"cpu\", \"pin_memory\": True}",
                 .zero_stage = 3};
}

std::vector<Measure> Measures::optimizers() const {
  std::vector<Measure> measures;
  const std::string_view present = name_of(scenario_.training.optimizer.kind);
  if (!trains_graph() || (present != "adam" && present != "adamw")) return measures;
  for (const measures_detail::SmallerOptimizer& other : measures_detail::kSmallerOptimizers) {
    const std::string name(other.name);
    measures.push_back({.kind = MeasureKind::kOptimizer,
                        .text = fmt::format("optimizer {}", name),
                        .settings = {{"training.optimizer", measures_detail::word(name)}},
                        .changes_numbers = true,
                        .pytorch = std::string(other.pytorch),
                        .hugging_face = std::string(other.hugging_face)});
  }
  return measures;
}

std::vector<Measure> Measures::precisions() const {
  std::vector<Measure> measures;
  if (!trains_graph()) return measures;
  const PrecisionRules& present = rules_of(scenario_.training.precision);
  const bool has_bf16 = matrix_type(scenario_.device, DType::kBFloat16) == DType::kBFloat16;
  const auto add = [&](std::string name, std::string pytorch, std::string hugging_face) {
    measures.push_back({.kind = MeasureKind::kPrecision,
                        .text = fmt::format("precision {}", name),
                        .settings = {{"training.precision", measures_detail::word(name)}},
                        .changes_numbers = true,
                        .pytorch = std::move(pytorch),
                        .hugging_face = std::move(hugging_face)});
  };
  const bool wide = present.model == DType::kFloat32 && !present.autocast;
  if (wide && has_bf16) {
    add("bf16_autocast", "with torch.autocast(\"cuda\", dtype=torch.bfloat16): ...", "bf16=True");
  } else if (wide) {
    add("fp16_autocast",
        "with torch.autocast(\"cuda\", dtype=torch.float16): ...  # with torch.amp.GradScaler",
        "fp16=True");
  }
  if (has_bf16 && present.precision != Precision::kBf16) {
    add("bf16", "model.to(torch.bfloat16)", "torch_dtype=torch.bfloat16  # of from_pretrained()");
  }
  return measures;
}

std::vector<std::int64_t> Measures::smaller_micro_batches() const {
  std::vector<std::int64_t> sizes;
  if (!trains_graph()) return sizes;
  const std::int64_t batch = scenario_.training.model.micro_batch;
  const std::int64_t samples = batch * scenario_.training.accumulate;
  for (std::int64_t size = 1; size < batch && size <= measures_detail::kLargestSearched; ++size) {
    if (samples % size == 0) sizes.push_back(size);
  }
  return sizes;
}

Measure Measures::micro_batch(std::int64_t size) const {
  const std::int64_t accumulate =
      scenario_.training.accumulate * scenario_.training.model.micro_batch / size;
  return {.kind = MeasureKind::kMicroBatch,
          .text = fmt::format("micro_batch {}, accumulate {}", size, accumulate),
          .settings = {{"training.micro_batch", measures_detail::word(fmt::to_string(size))},
                       {"training.accumulate", measures_detail::word(fmt::to_string(accumulate))}},
          .changes_numbers = measures_detail::has_batch_norm(model_.training),
          .pytorch = fmt::format("(loss / {0}).backward() for each of {0} batches of {1}, then "
                                 "optimizer.step()",
                                 accumulate, size),
          .hugging_face = fmt::format(
              "per_device_train_batch_size={}, gradient_accumulation_steps={}", size, accumulate)};
}

std::vector<Override> Measures::overrides(const std::vector<Measure>& measures) const {
  std::vector<Override> settings;
  Value list;
  if (const Value* listed = document_.find("policies")) list = *listed;
  list.kind = Value::Kind::kSequence;
  const std::size_t before = list.items.size();
  for (const Measure& measure : measures) {
    settings.insert(settings.end(), measure.settings.begin(), measure.settings.end());
    list.items.insert(list.items.end(), measure.policies.begin(), measure.policies.end());
  }
  if (list.items.size() > before) settings.push_back({"policies", std::move(list)});
  return settings;
}

}  // namespace tidemark
