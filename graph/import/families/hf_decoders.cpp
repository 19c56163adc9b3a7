// config.json of the decoder-only families of models/decoders, key by key as in
// transformers/models/FAMILY/configuration_FAMILY.py. Keys that are absent are those of the class.
#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "graph/import/hf_config.hpp"
#include "graph/models/decoders/decoder_model.hpp"
#include "graph/models/model_limits.hpp"

namespace tidemark {
namespace hf_decoders_detail {
namespace {

constexpr DecoderKeys kKeys{
    .heads = "num_attention_heads", .kv_heads = "num_key_value_heads", .rotary = "head_dim"};

std::int64_t optional_width(const Decoder& config, std::string_view key, std::int64_t fallback) {
  return config.optional<std::int64_t>(key, fallback, up_to(kMaxWidth));
}

// The sizes that most families name alike. Heads are as wide as divides the width, unless the
// config says otherwise or `head_width` is the family's own.
void read_sizes(const Decoder& config, DecoderConfig& decoder, std::int64_t head_width = 0) {
  decoder.vocab = config.required<std::int64_t>("vocab_size", up_to(kMaxVocabulary));
  decoder.width = config.required<std::int64_t>("hidden_size", up_to(kMaxWidth));
  decoder.ffn = config.required<std::int64_t>("intermediate_size", up_to(kMaxWidth));
  decoder.layers = config.required<std::int64_t>("num_hidden_layers", up_to(kMaxLayers));
  decoder.heads = config.required<std::int64_t>("num_attention_heads", up_to(kMaxHeads));
  decoder.kv_heads =
      config.optional<std::int64_t>("num_key_value_heads", decoder.heads, up_to(kMaxHeads));
  const auto own = config.maybe<std::int64_t>("head_dim", up_to(kMaxWidth));
  if (!own && head_width == 0) {
    require_divides(config, "num_attention_heads", decoder.heads, "heads", decoder.width,
                    fmt::format("a width of {}", decoder.width));
  }
  decoder.head_width = own.value_or(head_width > 0 ? head_width : decoder.width / decoder.heads);
  decoder.positions = config.optional<std::int64_t>("max_position_embeddings", decoder.positions,
                                                    up_to(kMaxSequence));
  decoder.attention_dropout = config.optional<double>("attention_dropout", 0, between(0, 1));
  decoder.tie = config.optional<bool>("tie_word_embeddings", decoder.tie);
}

void turn_share(const Decoder& config, DecoderConfig& decoder, double fallback) {
  const double share = config.optional<double>("partial_rotary_factor", fallback, between(0, 1));
  decoder.rotary_width =
      static_cast<std::int64_t>(static_cast<double>(decoder.head_width) * share + 1e-9);
}

Graph built(const Decoder& config, const DecoderConfig& decoder, const std::string& name,
            const ModelOptions& options, const DecoderKeys& keys = kKeys) {
  check_decoder(config, keys, decoder);
  return build_decoder(decoder, name, options);
}

DecoderConfig qwen3_sizes(const Decoder& config, DecoderConfig decoder, std::int64_t head_width) {
  read_sizes(config, decoder, head_width);
  decoder.rotary_width = decoder.head_width;
  decoder.activation = hf_activation(config, "hidden_act", "silu");
  decoder.projection_bias = decoder.output_bias = config.optional<bool>("attention_bias", false);
  return decoder;
}

DecoderConfig gemma_sizes(const Decoder& config, DecoderConfig decoder) {
  read_sizes(config, decoder, 256);
  decoder.rotary_width = decoder.head_width;
  const std::string_view key = config.has("hidden_activation") ? "hidden_activation" : "hidden_act";
  // "gelu" of a Gemma means its tanh form (modeling_gemma.py).
  decoder.activation = hf_activation(config, key, "gelu_pytorch_tanh");
  if (decoder.activation == "gelu") decoder.activation = "gelu_tanh";
  decoder.projection_bias = decoder.output_bias = config.optional<bool>("attention_bias", false);
  return decoder;
}

}  // namespace
}  // namespace hf_decoders_detail

Graph build_hf_falcon(const Decoder& config, const std::string& name, const ModelOptions& options) {
  DecoderConfig falcon = falcon_defaults();
  falcon.vocab = config.required<std::int64_t>("vocab_size", up_to(kMaxVocabulary));
  falcon.width = config.required<std::int64_t>("hidden_size", up_to(kMaxWidth));
  // Older configs abbreviate.
  const auto either = [&](std::string_view key, std::string_view old, std::int64_t limit) {
    const bool abbreviated = !config.has(key) && config.has(old);
    return config.required<std::int64_t>(abbreviated ? old : key, up_to(limit));
  };
  falcon.layers = either("num_hidden_layers", "n_layer", kMaxLayers);
  falcon.heads = either("num_attention_heads", "n_head", kMaxHeads);
  const std::string_view heads_key =
      config.has("num_attention_heads") ? "num_attention_heads" : "n_head";
  require_divides(config, heads_key, falcon.heads, "heads", falcon.width,
                  fmt::format("a width of {}", falcon.width));
  falcon.head_width = falcon.width / falcon.heads;
  falcon.ffn = hf_decoders_detail::optional_width(config, "ffn_hidden_size", 4 * falcon.width);
  const bool grouped = config.optional<bool>("new_decoder_architecture", false);
  const bool one_head = config.optional<bool>("multi_query", true);
  const auto kv_heads =
      config.optional<std::int64_t>("num_kv_heads", falcon.heads, up_to(kMaxHeads));
  falcon.kv_heads = grouped ? kv_heads : one_head ? 1 : falcon.heads;
  falcon.alibi = config.optional<bool>("alibi", false);
  falcon.rotary_width = falcon.alibi ? 0 : falcon.head_width;
  const bool parallel = config.optional<bool>("parallel_attn", true) || grouped;
  const auto norms = config.maybe<std::int64_t>("num_ln_in_parallel_attn", between(1, 2));
  falcon.block = !parallel                           ? DecoderBlock::kSequential
                 : grouped && norms.value_or(2) == 2 ? DecoderBlock::kParallelNorms
                                                     : DecoderBlock::kParallel;
  if (falcon.block == DecoderBlock::kParallelNorms) {
    falcon.names.first_norm = "ln_attn";
    falcon.names.second_norm = "ln_mlp";
  }
  falcon.projection_bias = falcon.output_bias = falcon.ffn_bias =
      config.optional<bool>("bias", false);
  falcon.attention_dropout = config.optional<double>("attention_dropout", 0, between(0, 1));
  falcon.residual_dropout = config.optional<double>("hidden_dropout", 0, between(0, 1));
  falcon.positions =
      config.optional<std::int64_t>("max_position_embeddings", 2048, up_to(kMaxSequence));
  falcon.tie = config.optional<bool>("tie_word_embeddings", true);
  return hf_decoders_detail::built(
      config, falcon, name, options,
      {.heads = heads_key, .kv_heads = "num_kv_heads", .rotary = heads_key});
}

Graph build_hf_gemma(const Decoder& config, const std::string& name, const ModelOptions& options) {
  return hf_decoders_detail::built(
      config, hf_decoders_detail::gemma_sizes(config, gemma_defaults()), name, options);
}

Graph build_hf_gemma2(const Decoder& config, const std::string& name, const ModelOptions& options) {
  return hf_decoders_detail::built(
      config, hf_decoders_detail::gemma_sizes(config, gemma2_defaults()), name, options);
}

Graph build_hf_gemma3_text(const Decoder& config, const std::string& name,
                           const ModelOptions& options) {
  return hf_decoders_detail::built(
      config, hf_decoders_detail::gemma_sizes(config, gemma3_defaults()), name, options);
}

// The language model of a Gemma 3 that also reads images, without its image encoder.
Graph build_hf_gemma3(const Decoder& config, const std::string& name, const ModelOptions& options) {
  if (!config.has("text_config")) return build_hf_gemma3_text(config, name, options);
  return build_hf_gemma3_text(config.required_child("text_config"), name, options);
}

Graph build_hf_mpt(const Decoder& config, const std::string& name, const ModelOptions& options) {
  DecoderConfig mpt = mpt_defaults();
  mpt.vocab = config.required<std::int64_t>("vocab_size", up_to(kMaxVocabulary));
  mpt.width = config.required<std::int64_t>("d_model", up_to(kMaxWidth));
  mpt.layers = config.required<std::int64_t>("n_layers", up_to(kMaxLayers));
  mpt.heads = config.required<std::int64_t>("n_heads", up_to(kMaxHeads));
  mpt.ffn = mpt.width * config.optional<std::int64_t>("expansion_ratio", 4, up_to(64));
  mpt.positions = config.optional<std::int64_t>("max_seq_len", 2048, up_to(kMaxSequence));
  require_divides(config, "n_heads", mpt.heads, "heads", mpt.width,
                  fmt::format("a width of {}", mpt.width));
  mpt.head_width = mpt.width / mpt.heads;
  mpt.kv_heads = mpt.heads;
  mpt.embedding_dropout = config.optional<double>("emb_pdrop", 0, between(0, 1));
  mpt.residual_dropout = config.optional<double>("resid_pdrop", 0, between(0, 1));
  if (config.has("attn_config")) {
    const Decoder attention = config.required_child("attn_config");
    mpt.attention_dropout = attention.optional<double>("attn_pdrop", 0, between(0, 1));
    mpt.kv_heads = attention.optional<std::int64_t>("kv_n_heads", mpt.heads, up_to(kMaxHeads));
  }
  mpt.tie = config.optional<bool>("tie_word_embeddings", true);
  return hf_decoders_detail::built(
      config, mpt, name, options,
      {.heads = "n_heads", .kv_heads = "attn_config", .rotary = "n_heads"});
}

Graph build_hf_nemotron(const Decoder& config, const std::string& name,
                        const ModelOptions& options) {
  DecoderConfig nemotron = nemotron_defaults();
  hf_decoders_detail::read_sizes(config, nemotron);
  hf_decoders_detail::turn_share(config, nemotron, 0.5);
  if (config.optional<std::string>("hidden_act", "relu2") != "relu2") {
    nemotron.activation = hf_activation(config, "hidden_act", "relu");
  }
  nemotron.projection_bias = nemotron.output_bias = config.optional<bool>("attention_bias", false);
  nemotron.ffn_bias = config.optional<bool>("mlp_bias", false);
  return hf_decoders_detail::built(config, nemotron, name, options);
}

Graph build_hf_phi(const Decoder& config, const std::string& name, const ModelOptions& options) {
  DecoderConfig phi = phi_defaults();
  hf_decoders_detail::read_sizes(config, phi);
  hf_decoders_detail::turn_share(config, phi, 0.5);
  phi.activation = hf_activation(config, "hidden_act", "gelu_new");
  phi.residual_dropout = config.optional<double>("resid_pdrop", 0, between(0, 1));
  phi.embedding_dropout = config.optional<double>("embd_pdrop", 0, between(0, 1));
  if (config.optional<bool>("qk_layernorm", false)) {
    config.fail_at("qk_layernorm", "norms of queries and keys are not known of this model_type");
  }
  return hf_decoders_detail::built(config, phi, name, options);
}

Graph build_hf_phi3(const Decoder& config, const std::string& name, const ModelOptions& options) {
  DecoderConfig phi = phi3_defaults();
  hf_decoders_detail::read_sizes(config, phi);
  hf_decoders_detail::turn_share(config, phi, 1);
  phi.activation = hf_activation(config, "hidden_act", "silu");
  phi.residual_dropout = config.optional<double>("resid_pdrop", 0, between(0, 1));
  phi.embedding_dropout = config.optional<double>("embd_pdrop", 0, between(0, 1));
  return hf_decoders_detail::built(config, phi, name, options);
}

Graph build_hf_qwen3(const Decoder& config, const std::string& name, const ModelOptions& options) {
  const DecoderConfig qwen = hf_decoders_detail::qwen3_sizes(config, qwen3_defaults(), 128);
  return hf_decoders_detail::built(config, qwen, name, options);
}

// Defaults are those of configuration_qwen3_moe.py. The loss of the router, which a config asks for
// with output_router_logits, is left out and remarked on.
Graph build_hf_qwen3_moe(const Decoder& config, const std::string& name,
                         const ModelOptions& options) {
  DecoderConfig qwen = hf_decoders_detail::qwen3_sizes(config, qwen3_moe_defaults(), 0);
  const std::int64_t layers = qwen.layers;
  qwen.experts = config.optional<std::int64_t>("num_experts", 128, between(0, kMaxExperts));
  qwen.experts_per_token =
      config.optional<std::int64_t>("num_experts_per_tok", 8, up_to(kMaxExperts));
  if (qwen.experts > 0 && qwen.experts_per_token > qwen.experts)
    config.fail_at("num_experts_per_tok", "a token cannot take more experts than there are");
  qwen.expert_ffn = config.optional<std::int64_t>("moe_intermediate_size", 768, up_to(kMaxWidth));
  qwen.sparse_step = config.optional<std::int64_t>("decoder_sparse_step", 1, up_to(kMaxLayers));
  qwen.dense_blocks = config.list<std::int64_t>("mlp_only_layers", at_least(0));
  for (const std::int64_t block : qwen.dense_blocks) {
    if (block < layers) continue;
    config.fail_at("mlp_only_layers", fmt::format("there is no layer {} among {}, which are "
                                                  "counted from 0",
                                                  block, layers));
  }
  qwen.normalises_experts = config.optional<bool>("norm_topk_prob", false);
  Graph graph = hf_decoders_detail::built(config, qwen, name, options);
  if (qwen.experts > 0) remark_on_router_loss(config, graph);
  return graph;
}

Graph build_hf_stablelm(const Decoder& config, const std::string& name,
                        const ModelOptions& options) {
  DecoderConfig stable = stablelm_defaults();
  hf_decoders_detail::read_sizes(config, stable);
  // Older configs call the share rope_pct.
  const double share = config.optional<double>("rope_pct", 0.25, between(0, 1));
  hf_decoders_detail::turn_share(config, stable, share);
  stable.activation = hf_activation(config, "hidden_act", "silu");
  stable.projection_bias = config.optional<bool>("use_qkv_bias", false);
  stable.residual_dropout = config.optional<double>("hidden_dropout", 0, between(0, 1));
  if (config.optional<bool>("qk_layernorm", false)) stable.query_key_norm = QueryKeyNorm::kPerHead;
  if (config.optional<bool>("use_parallel_residual", false)) stable.block = DecoderBlock::kParallel;
  return hf_decoders_detail::built(config, stable, name, options);
}

}  // namespace tidemark
