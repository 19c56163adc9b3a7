// The measures that make gradients and optimizer states smaller.
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "scenarios/studies/measures/measures.hpp"
#include "scenarios/studies/measures/setting_values.hpp"

namespace tidemark {
namespace state_measures_detail {
namespace {

// An optimizer with smaller states than Adam's, and where it is found.
struct SmallerOptimizer {
  std::string_view name;
  std::string_view pytorch;
  std::string_view hugging_face;
  std::string_view axolotl;
  std::string_view numbers;
};
constexpr SmallerOptimizer kSmallerOptimizers[] = {
    {"adamw_8bit", "optimizer = bitsandbytes.optim.AdamW8bit(model.parameters(), lr=lr)",
     "optim=\"adamw_bnb_8bit\"", "optimizer: adamw_bnb_8bit", "moments of 8 bits"},
    {"adafactor", "optimizer = torch.optim.Adafactor(model.parameters(), lr=lr)",
     "optim=\"adafactor\"", "optimizer: adafactor", "second moments by rows and columns"},
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

}  // namespace
}  // namespace state_measures_detail

std::optional<Measure> Measures::offload_optimizer() const {
  if (!trains_graph() || has_policy("offload_optimizer")) return std::nullopt;
  return Measure{
      .kind = MeasureKind::kOffloadOptimizer,
      .text = "offload_optimizer",
      .policies = {policy_item("offload_optimizer")},
      .pytorch = state_measures_detail::offloaded_optimizer(scenario_.training.optimizer),
      .deepspeed = is_as_deepspeed()
                       ? "\"offload_optimizer\": {\"device\": \"cpu\", \"pin_memory\": True}"
                       : "",
      .zero_stage = 2};
}

Measure Measures::offload_optimizer_part(std::int64_t percent) const {
  const std::string part = share_text(percent);
  return {.kind = MeasureKind::kOffloadOptimizer,
          .text = fmt::format("offload_optimizer(ratio {})", part),
          .policies = {policy_item("offload_optimizer", "ratio", part)},
          .deepspeed =
              is_as_deepspeed()
                  ? fmt::format("\"offload_optimizer\": {{\"device\": \"cpu\", \"pin_memory\": "
                                "True, \"ratio\": {}}}",
                                part)
                  : "",
          .zero_stage = 3};
}

std::vector<Measure> Measures::optimizers() const {
  std::vector<Measure> measures;
  const std::string_view present = name_of(scenario_.training.optimizer.kind);
  if (!trains_graph() || (present != "adam" && present != "adamw")) return measures;
  for (const state_measures_detail::SmallerOptimizer& other :
       state_measures_detail::kSmallerOptimizers) {
    const std::string name(other.name);
    measures.push_back({.kind = MeasureKind::kOptimizer,
                        .text = fmt::format("optimizer {}", name),
                        .settings = {{"training.optimizer", word_value(name)}},
                        .numbers = std::string(other.numbers),
                        .pytorch = std::string(other.pytorch),
                        .hugging_face = std::string(other.hugging_face),
                        .axolotl = std::string(other.axolotl)});
  }
  return measures;
}

std::optional<Measure> Measures::optimizer_in_backward(bool with_sharding) const {
  // The policy refuses these (policies/rewrite/optimizer_in_backward.cpp).
  const bool unsharded =
      scenario_.mesh.replicas() > 1 && !has_policy("fsdp") && !(with_sharding && sharding());
  const bool others = has_policy("zero") || has_policy("distributed_optimizer") ||
                      has_policy("data_parallel") || has_policy("offload_optimizer") ||
                      scenario_.training.loss_scale || scenario_.training.clip_grad_norm ||
                      !scenario_.turns.empty();
  if (!trains_graph() || has_policy("optimizer_in_backward") || model_.training.micro_batches > 1 ||
      model_.training.gradients_persist || unsharded || others ||
      scenario_.mesh.size(MeshDimension::kPipeline) > 1)
    return std::nullopt;
  return Measure{.kind = MeasureKind::kOptimizerInBackward,
                 .text = "optimizer_in_backward",
                 .policies = {policy_item("optimizer_in_backward")},
                 .pytorch =
                     "optimizer_in_bwd=True  # torchtune; else a hook on each gradient that steps "
                     "and drops it"};
}

}  // namespace tidemark
