// The policies of the registry as a scenario lists them in tests of small models.
#pragma once

#include <map>
#include <string>

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

}  // namespace tidemark
