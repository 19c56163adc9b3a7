// model_type llama: transformers/models/llama/modeling_llama.py.
#include <cstdint>
#include <string>
#include <utility>

#include "graph/import/hf_config.hpp"
#include "graph/models/decoders/llama.hpp"
#include "graph/models/model_limits.hpp"

namespace tidemark {

LlamaConfig hf_llama_sizes(const Decoder& config, LlamaConfig defaults) {
  LlamaConfig llama = std::move(defaults);
  llama.vocab = config.required<std::int64_t>("vocab_size", up_to(kMaxVocabulary));
  llama.width = config.required<std::int64_t>("hidden_size", up_to(kMaxWidth));
  llama.ffn = config.required<std::int64_t>("intermediate_size", up_to(kMaxWidth));
  llama.layers = config.required<std::int64_t>("num_hidden_layers", up_to(kMaxLayers));
  llama.heads = config.required<std::int64_t>("num_attention_heads", up_to(kMaxHeads));
  // Without this key every query head has its own key-value head (configuration_llama.py).
  llama.kv_heads =
      config.optional<std::int64_t>("num_key_value_heads", llama.heads, up_to(kMaxHeads));
  llama.head_width = config.maybe<std::int64_t>("head_dim", up_to(kMaxWidth));
  // Rotary positions have no table to fit in: the key only bounds the default sequence.
  llama.positions = config.optional<std::int64_t>("max_position_embeddings", kDefaultSequence,
                                                  up_to(kMaxSequence));
  llama.activation = hf_activation(config, "hidden_act", "silu");
  llama.attention_dropout =
      config.optional<double>("attention_dropout", llama.attention_dropout, between(0, 1));
  llama.tie = config.optional<bool>("tie_word_embeddings", llama.tie);
  check_llama_heads(
      config,
      {.heads = "num_attention_heads", .kv_heads = "num_key_value_heads", .head_width = "head_dim"},
      llama);
  return llama;
}

Graph build_hf_llama(const Decoder& config, const std::string& name, const ModelOptions& options) {
  LlamaConfig llama = hf_llama_sizes(config, {});
  llama.attention_bias = config.optional<bool>("attention_bias", false);
  llama.output_bias = llama.attention_bias;
  llama.ffn_bias = config.optional<bool>("mlp_bias", false);
  return build_llama(llama, name, options);
}

}  // namespace tidemark
