#include "scenarios/studies/measures/measures.hpp"

#include <algorithm>
#include <span>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "graph/operators/family.hpp"
#include "graph/operators/registry.hpp"
#include "policies/rewrite/optimizer_kernels.hpp"
#include "scenarios/read/liger_models.hpp"
#include "scenarios/read/short_form.hpp"
#include "scenarios/studies/measures/setting_values.hpp"

namespace tidemark {
namespace measures_detail {
namespace {

constexpr std::int64_t kLargestSearched = 1 << 20;  // largest micro-batch that is searched

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

// A step of several turns takes no policies that recompute or move activations (read/turns.hpp).
bool Measures::moves_activations() const {
  return trains_graph() && scenario_.turns.empty();
}

std::vector<Measure> Measures::memory_fraction() const {
  if (scenario_.allocator->memory_fraction() >= 1) return {};
  return {{.kind = MeasureKind::kMemoryFraction,
           .text = "memory_fraction 1",
           .settings = {{"allocator.memory_fraction", word_value("1.0")}},
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
                        .settings = {{"training.zero_grad", word_value("none")}},
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
         .settings = {{"training.optimizer.implementation", word_value(name)}},
         .pytorch = fmt::format("pass {} to the optimizer", fused ? "fused=True" : "foreach=False"),
         .hugging_face = fused && name_of(training.optimizer.kind) == "adamw"
                             ? "optim=\"adamw_torch_fused\""
                             : ""});
  }
  return measures;
}

std::optional<Measure> Measures::recompute(bool reentrant) const {
  const bool orders = std::any_of(
      scenario_.policies.begin(), scenario_.policies.end(), [](const AnyPolicy& policy) {
        return std::holds_alternative<std::unique_ptr<SequencePolicy>>(policy);
      });
  if (!moves_activations() || orders || model_.training.blocks == 0 ||
      has_policy("checkpoint_every")) {
    return std::nullopt;
  }
  Measure measure{
      .kind = MeasureKind::kRecompute,
      .text = "checkpoint_every(period 1)",
      .policies = {policy_item("checkpoint_every", "period", "1")},
      .pytorch =
          "x = torch.utils.checkpoint.checkpoint(block, x, use_reentrant=True)  # each block",
      .hugging_face = "gradient_checkpointing=True",
      .axolotl = "gradient_checkpointing: true"};
  // A reentrant function gives parameters no gradient where none of its inputs requires one.
  if (reentrant && !model_.enters_without_gradient) return measure;
  set_entry(measure.policies.front().entries.front().value, "reentrant", {}, word_value("false"));
  measure.pytorch =
      "x = torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False)  # each block";
  measure.hugging_face += ", gradient_checkpointing_kwargs={\"use_reentrant\": False}";
  measure.axolotl += "\ngradient_checkpointing_kwargs: {use_reentrant: false}";
  return measure;
}

Measure Measures::recompute_first(std::int64_t count) const {
  const bool reentrant = !model_.enters_without_gradient;
  Measure measure{.kind = MeasureKind::kRecompute,
                  .text = fmt::format("checkpoint(first {})", count),
                  .policies = {policy_item("checkpoint", "first", fmt::to_string(count))},
                  .pytorch = fmt::format("x = torch.utils.checkpoint.checkpoint(block, x, "
                                         "use_reentrant={})  # the first {} blocks{}",
                                         reentrant ? "True" : "False", count,
                                         model_.stages.empty() ? "" : " of each stage")};
  if (!reentrant) {
    set_entry(measure.policies.front().entries.front().value, "reentrant", {}, word_value("false"));
  }
  return measure;
}

bool Measures::is_as_deepspeed() const {
  return !has_policy("fsdp") && !has_policy("distributed_optimizer") &&
         scenario_.mesh.size(MeshDimension::kTensor) == 1 &&
         scenario_.mesh.size(MeshDimension::kPipeline) == 1;
}

std::optional<Measure> Measures::offload_activations() const {
  if (!moves_activations() || has_policy("offload_activations")) return std::nullopt;
  return Measure{.kind = MeasureKind::kOffloadActivations,
                 .text = "offload_activations",
                 .policies = {policy_item("offload_activations")},
                 .pytorch = "with torchtune.training.OffloadActivations(use_streams=True): ...",
                 .hugging_face = "activation_offloading=True  # TRL's SFTConfig"};
}

Measure Measures::offload_part(std::int64_t percent) const {
  const std::string part = share_text(percent);
  return {.kind = MeasureKind::kOffloadActivations,
          .text = fmt::format("offload_activations(fraction {})", part),
          .policies = {policy_item("offload_activations", "fraction", part)}};
}

std::optional<Measure> Measures::offload_parameters() const {
  if (!trains_graph() || has_policy("offload_parameters")) return std::nullopt;
  return Measure{.kind = MeasureKind::kOffloadParameters,
                 .text = "offload_parameters",
                 .policies = {policy_item("offload_parameters")},
                 .deepspeed = is_as_deepspeed()
                                  ? "\"offload_param\": {\"device\": \"cpu\", \"pin_memory\": True}"
                                  : "",
                 .zero_stage = 3};
}

std::vector<Measure> Measures::precisions() const {
  std::vector<Measure> measures;
  if (!trains_graph()) return measures;
  const PrecisionRules& present = rules_of(scenario_.training.precision);
  const bool has_bf16 = matrix_type(scenario_.device, DType::kBFloat16) == DType::kBFloat16;
  const auto add = [&](std::string name, std::string numbers, std::string pytorch,
                       std::string hugging_face, std::string axolotl) {
    measures.push_back({.kind = MeasureKind::kPrecision,
                        .text = fmt::format("precision {}", name),
                        .settings = {{"training.precision", word_value(name)}},
                        .numbers = std::move(numbers),
                        .pytorch = std::move(pytorch),
                        .hugging_face = std::move(hugging_face),
                        .axolotl = std::move(axolotl)});
  };
  const bool wide = present.model == DType::kFloat32 && !present.autocast;
  if (wide && has_bf16) {
    add("bf16_autocast", "products in bf16",
        "with torch.autocast(\"cuda\", dtype=torch.bfloat16): ...", "bf16=True", "bf16: auto");
  } else if (wide) {
    add("fp16_autocast", "products in fp16",
        "with torch.autocast(\"cuda\", dtype=torch.float16): ...  # with torch.amp.GradScaler",
        "fp16=True", "fp16: true");
  }
  if (has_bf16 && present.precision != Precision::kBf16) {
    add("bf16", "weights, gradients and moments in bf16", "model.to(torch.bfloat16)",
        "torch_dtype=torch.bfloat16  # of from_pretrained()", "bfloat16: true");
  }
  return measures;
}

std::optional<Measure> Measures::fused_loss() const {
  if (!trains_graph() || model_.training.tokens == 0 || has_policy("fused_loss") ||
      has_policy("chunked_loss"))
    return std::nullopt;
  Value item = mapping_value({});
  set_entry(item, "fused_loss", {}, word_value("liger"));
  Measure measure{
      .kind = MeasureKind::kFusedLoss,
      .text = "fused_loss(liger)",
      .policies = {std::move(item)},
      .pytorch =
          "loss = LigerFusedLinearCrossEntropyLoss()( lm_head.weight, hidden, targets)  # "
          "liger_kernel.transformers"};
  const std::string type = liger_type(scenario_.model);
  if (type.empty()) return measure;
  // The libraries' one setting patches the blocks with the loss.
  if (!has_policy("liger_kernels")) {
    measure.text += " + liger_kernels";
    measure.policies.push_back(liger_leaves_head_norms(type)
                                   ? policy_item("liger_kernels", "head_norms", "false")
                                   : policy_item("liger_kernels"));
    measure.pytorch =
        "liger_kernel.transformers._apply_liger_kernel_to_instance(model=model)  # as the Trainer "
        "does";
  }
  measure.hugging_face = "use_liger_kernel=True";
  measure.axolotl = fmt::format(
      "plugins: [axolotl.integrations.liger.LigerPlugin]\n"
      "liger_fused_linear_cross_entropy: true\nliger_rms_norm: true{}\n"
      "liger_glu_activation: true\nliger_rope: true",
      liger_leaves_head_norms(type) ? "  # those of queries and keys, too, which take less" : "");
  return measure;
}

std::optional<Measure> Measures::sharding(bool in_autocast) const {
  const bool shards = std::any_of(
      scenario_.policies.begin(), scenario_.policies.end(), [](const AnyPolicy& policy) {
        const auto* rewrite = std::get_if<std::unique_ptr<TrainingRewrite>>(&policy);
        return rewrite != nullptr && (*rewrite)->reduces_gradients();
      });
  if (!trains_graph() || shards || scenario_.mesh.replicas() < 2) return std::nullopt;
  Measure measure{
      .kind = MeasureKind::kSharding,
      .text = "fsdp",
      .policies = {policy_item("fsdp")},
      .pytorch = "torch.distributed.fsdp.fully_shard(block)  # each block, then the model",
      .hugging_face = "fsdp=\"full_shard auto_wrap\", fsdp_config={\"fsdp_version\": 2}",
      .axolotl = "fsdp_version: 2\nfsdp_config: {auto_wrap_policy: TRANSFORMER_BASED_WRAP}"};
  const std::optional<DType> type = rules_of(scenario_.training.precision).autocast;
  if (!in_autocast || !type) return measure;
  // Accelerate hands the type of mixed precision to FSDP, which casts what it gathers.
  measure.text = fmt::format("fsdp({})", name_of(*type));
  for (const char* key : {"param_dtype", "reduce_dtype"})
    set_entry(measure.policies.front().entries.front().value, key, {},
              word_value(std::string(name_of(*type))));
  measure.settings = {{"training.precision", word_value("fp32")}};
  const char* torch_type = *type == DType::kBFloat16 ? "torch.bfloat16" : "torch.float16";
  measure.pytorch = fmt::format(
      "torch.distributed.fsdp.fully_shard(block, mp_policy=MixedPrecisionPolicy({0}, {0}))  # each "
      "block, then the model",
      torch_type);
  return measure;
}

std::vector<std::int64_t> Measures::smaller_micro_batches() const {
  std::vector<std::int64_t> sizes;
  if (!trains_graph() || model_.training.fixes_samples) return sizes;
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
          .settings = {{"training.micro_batch", word_value(fmt::to_string(size))},
                       {"training.accumulate", word_value(fmt::to_string(accumulate))}},
          .numbers = measures_detail::has_batch_norm(model_.training)
                         ? "statistics of smaller batches"
                         : "",
          .pytorch = fmt::format("(loss / {0}).backward() for each of {0} batches of {1}, then "
                                 "optimizer.step()",
                                 accumulate, size),
          .hugging_face = fmt::format(
              "per_device_train_batch_size={}, gradient_accumulation_steps={}", size, accumulate)};
}

bool takes(std::span<const Measure> measures, MeasureKind kind) {
  return std::any_of(measures.begin(), measures.end(),
                     [&](const Measure& measure) { return measure.kind == kind; });
}

bool trainer_lacks(const Measure& measure, std::span<const Measure> taken) {
  if (!measure.hugging_face.empty()) return false;
  return measure.deepspeed.empty() || takes(taken, MeasureKind::kSharding);
}

std::string deepspeed_argument(std::span<const Measure> measures) {
  if (takes(measures, MeasureKind::kSharding)) return {};
  std::vector<std::string> entries;
  int stage = 0;
  for (const Measure& measure : measures) {
    if (!measure.deepspeed.empty()) entries.push_back(measure.deepspeed);
    stage = std::max(stage, measure.zero_stage);
  }
  if (entries.empty()) return {};
  return fmt::format("deepspeed={{\"zero_optimization\": {{\"stage\": {}, {}}}}}", stage,
                     fmt::join(entries, ", "));
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
