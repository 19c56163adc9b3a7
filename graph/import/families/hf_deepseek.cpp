// model_type deepseek_v2 and deepseek_v3: transformers/models/deepseek_v3/modeling_deepseek_v3.py.
#include <cstdint>
#include <string>

#include "graph/import/hf_config.hpp"
#include "graph/models/decoders/deepseek.hpp"
#include "graph/models/model_limits.hpp"

namespace tidemark {

Graph build_hf_deepseek(const Decoder& config, const std::string& name,
                        const ModelOptions& options) {
  const auto width = [&](std::string_view key) {
    return config.required<std::int64_t>(key, up_to(kMaxWidth));
  };
  const auto count = [&](std::string_view key, std::int64_t fallback, std::int64_t limit) {
    return config.optional<std::int64_t>(key, fallback, between(0, static_cast<double>(limit)));
  };
  DeepseekConfig deepseek;
  deepseek.vocab = config.required<std::int64_t>("vocab_size", up_to(kMaxVocabulary));
  deepseek.width = width("hidden_size");
  deepseek.ffn = width("intermediate_size");
  deepseek.expert_ffn = width("moe_intermediate_size");
  deepseek.layers = config.required<std::int64_t>("num_hidden_layers", up_to(kMaxLayers));
  deepseek.heads = config.required<std::int64_t>("num_attention_heads", up_to(kMaxHeads / 64));
  // null: queries are projected at once.
  const auto rank = config.maybe<std::int64_t>("q_lora_rank", between(0, kMaxWidth));
  deepseek.query_rank = rank.value_or(0);
  deepseek.kv_rank = width("kv_lora_rank");
  deepseek.plain_width = width("qk_nope_head_dim");
  deepseek.rotary_width = width("qk_rope_head_dim");
  deepseek.value_width = width("v_head_dim");
  deepseek.dense_layers = count("first_k_dense_replace", 0, kMaxLayers);
  deepseek.experts = config.required<std::int64_t>("n_routed_experts", up_to(kMaxExperts));
  deepseek.experts_per_token =
      config.required<std::int64_t>("num_experts_per_tok", up_to(kMaxExperts));
  deepseek.shared_experts = count("n_shared_experts", 0, kMaxExperts);
  deepseek.corrects_scores = config.required<std::string>("model_type") == "deepseek_v3";
  deepseek.positions = config.optional<std::int64_t>("max_position_embeddings", kDefaultSequence,
                                                     up_to(kMaxSequence));
  deepseek.tie = config.optional<bool>("tie_word_embeddings", false);
  if (deepseek.rotary_width % 2 != 0) {
    config.fail_at("qk_rope_head_dim", "rotary positions turn pairs of elements, so it is even");
  }
  if (deepseek.experts_per_token > deepseek.experts) {
    config.fail_at("num_experts_per_tok", "a token cannot take more experts than there are");
  }
  return build_deepseek(deepseek, name, options);
}

}  // namespace tidemark
