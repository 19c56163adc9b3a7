// The policies of the registry as lists of random scenarios name them, on small models.
#pragma once

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "policies/registry.hpp"

namespace tidemark {

// Parameters that make a policy act on models of a few megabytes; others take their defaults.
inline std::string listed(const std::string& name) {
  static const std::map<std::string, std::string> kParameters{
      {"chunked_loss", "{chunks: 4}"},
      {"fused_loss", "liger"},
      {"distill",
       "{teacher: {preset: gpt, layers: 2, width: 32, heads: 2, vocab: 256, sequence: 32}}"},
      {"compress_activations", "{bits: 2}"},
      {"qat", "{observe: inputs}"},
      {"tensor_parallel", "{size: 1}"},
      {"context_parallel", "{size: 1}"},
      {"expert_parallel", "{size: 1}"},
      {"checkpoint", "{every_other: 2}"},
      {"checkpoint_sequential", "{segments: 2}"},
      {"te_offload", "{layers: 2, min_bytes: 1KiB}"},
      {"offload_activations", "{min_bytes: 1KiB, prefetch: just_in_time}"},
      {"torchtune_offload", "{prefetch: earliest}"},
      {"megatron_offload", "{min_bytes: 1KiB}"},
      {"offload_checkpoints", "{min_bytes: 1KiB}"},
      {"selective", "{save: []}"},
      {"stronghold", "{min_bytes: 1KiB, window: 1}"},
      {"belady", "{budget: 2MiB}"},
      {"capuchin", "{budget: 3MiB}"},
      {"flashneuron", "{budget: 2MiB}"},
      {"karma", "{budget: 3MiB}"},
      {"hybrid", "{budget: 3MiB, tries: 8}"},
      {"superneurons", "{tensor_cache: false}"},
      {"offload_optimizer", "{ratio: 0.6, gradients: backward}"},
      {"offload_parameters", "{min_elements: 100}"},
      {"pipeline", "{size: 1}"},
      {"revolve", "{checkpoints: 2}"},
      {"eviction", "{heuristic: dtr_eq}"},
      {"freeze", "{layers: ['*.bias']}"},
      {"lora", "{rank: 2, targets: all-linear, base: int8}"},
      {"optimal", "{time_limit: 50ms, iterations: 20, budget: 3MiB}"},
      {"rockmate", "{plans: 2}"},
      {"checkmate_lp", "{time_limit: 100ms}"},
  };
  const auto at = kParameters.find(name);
  return at == kParameters.end() ? name : name + ": " + at->second;
}

inline constexpr const char* kModels[] = {
    "{preset: gpt, layers: 4, width: 64, heads: 4, vocab: 256, sequence: 32, dropout: 0.1}",
    "{preset: vgg11, classes: 10}", "{preset: resnet18, classes: 10}",
    "{preset: llama-3.2-1b, layers: 3, width: 64, heads: 4, kv_heads: 2, ffn: 96, vocab: 256, "
    "sequence: 32}"};
inline constexpr const char* kLlama = kModels[3];

inline bool is_language(std::string_view model) {
  return model.find("gpt") != std::string_view::npos || model == kLlama;
}

inline constexpr std::string_view kInBackward = "optimizer_in_backward";

// Whether a policy of the registry can be combined with those chosen: one decides the order, one
// the evictions, one reduces the gradients, one says where parameters are updated; attention is
// recomputed only where there is some, and gradients that accumulate are not used up in backward.
inline bool may_join(const PolicyEntry& entry, const std::vector<const PolicyEntry*>& chosen,
                     std::string_view model, bool accumulates) {
  const bool for_language = entry.name == "megatron_selective" || entry.name == "distill";
  if (for_language && !is_language(model)) return false;
  if (entry.name == "liger_kernels" && model != kLlama) return false;
  // One loss.
  static const std::set<std::string_view> kLosses{"chunked_loss", "fused_loss", "distill"};
  const bool has_loss = std::any_of(chosen.begin(), chosen.end(), [](const PolicyEntry* other) {
    return kLosses.contains(other->name);
  });
  if (has_loss && kLosses.contains(entry.name)) return false;
  // The head of a language model has no adapter, which such a loss could not take with it.
  const auto adapts_head = [&](const PolicyEntry* other) {
    return (entry.name == "lora" && kLosses.contains(other->name)) ||
           (other->name == "lora" && kLosses.contains(entry.name));
  };
  if (!is_language(model) && std::any_of(chosen.begin(), chosen.end(), adapts_head)) return false;
  if (entry.name == kInBackward && accumulates) return false;
  // Weights that are masked or rounded at each use are no parameters that a base could quantise,
  // and nothing is quantised twice.
  static const std::set<std::string_view> kQuantise{"lora", "quantise_weights"};
  static const std::set<std::string_view> kProducts{"prune", "qat"};
  const auto clashes = [&](const PolicyEntry* other) {
    if (kQuantise.contains(entry.name) && kQuantise.contains(other->name)) return true;
    return (kQuantise.contains(entry.name) && kProducts.contains(other->name)) ||
           (kProducts.contains(entry.name) && kQuantise.contains(other->name));
  };
  if (std::any_of(chosen.begin(), chosen.end(), clashes)) return false;
  const auto places = [](const PolicyEntry& policy) {
    return policy.name == kInBackward || policy.name == "offload_optimizer";
  };
  const bool single = entry.kind == "sequence" || entry.kind == "eviction";
  const auto reduces = [](const PolicyEntry& policy) {
    static const std::set<std::string_view> kReducing{"data_parallel", "distributed_optimizer",
                                                      "fsdp", "megatron_data_parallel", "zero"};
    return kReducing.contains(policy.name);
  };
  return std::none_of(chosen.begin(), chosen.end(), [&](const PolicyEntry* other) {
    return other == &entry || (single && other->kind == entry.kind) ||
           (reduces(entry) && reduces(*other)) || (places(entry) && places(*other));
  });
}

}  // namespace tidemark
