#include "graph/models/decoders/deepseek.hpp"

#include <utility>
#include <vector>

#include <fmt/format.h>

#include "graph/models/experts.hpp"
#include "graph/models/language.hpp"
#include "graph/models/model_limits.hpp"
#include "graph/models/preset.hpp"

namespace tidemark {
namespace deepseek_detail {
namespace {

class DeepseekBuilder {
 public:
  DeepseekBuilder(const DeepseekConfig& config, const std::string& name,
                  const ModelOptions& options)
      : config_(config),
        options_(options),
        sequence_(sequence_of(options, config.positions, false)),
        builder_(name, options.dtype) {}

  Graph build() {
    check_transformer_size({.batch = options_.micro_batch,
                            .sequence = sequence_,
                            .heads = config_.heads,
                            .ffn = config_.ffn,
                            .vocab = config_.vocab});
    ModelBuilder& b = builder_;
    const TensorId tokens = b.input("tokens", {options_.micro_batch, sequence_}, DType::kInt64);
    cos_ = b.buffer("rotary_emb.cos", {sequence_, config_.rotary_width}, b.dtype());
    sin_ = b.buffer("rotary_emb.sin", {sequence_, config_.rotary_width}, b.dtype());
    if (options_.attention == AttentionKind::kMath) {
      mask_ = b.buffer("causal_mask", {1, 1, sequence_, sequence_}, b.dtype());
    }
    TensorId table;
    TensorId x = b.embedding("embed_tokens", tokens, config_.vocab, config_.width, &table);
    for (std::int64_t i = 0; i < config_.layers; ++i)
      x = block(i, x);
    x = b.rms_norm("norm", x, !options_.fused_norms);
    const TensorId logits =
        config_.tie ? b.linear_with(x, table) : b.linear("lm_head", x, config_.vocab, false);
    b.set_output(logits);
    b.set_samples(options_.micro_batch, options_.micro_batch * sequence_);
    add_language_loss(b, logits, options_.loss, true);
    return checked(b.finish());
  }

 private:
  TensorId block(std::int64_t index, TensorId x) {
    ModelBuilder& b = builder_;
    const auto scope = b.block(fmt::format("layers.{}", index));
    x = b.add_tensors(x, attention(b.rms_norm("input_layernorm", x, !options_.fused_norms)));
    const TensorId y = b.rms_norm("post_attention_layernorm", x, !options_.fused_norms);
    return b.add_tensors(
        x, index < config_.dense_layers ? feed_forward("mlp", y, config_.ffn) : mixture(y));
  }

  [[nodiscard]] std::vector<TensorId> split(TensorId x, std::int64_t first, std::int64_t second) {
    const std::vector<std::int64_t> sizes{first, second};
    return builder_.add_many("split", {x}, {{"sizes", sizes}, {"axis", std::int64_t{-1}}});
  }

  //   q = q_b(norm(q_a(x)))                    each head: what does not turn, what turns
  //   latent, key = split(kv_a(x)); k, v = split(kv_b(norm(latent)))
  //   q = cat(q, rotate(q')); k = cat(k, rotate(key) for every head)
  TensorId attention(TensorId x) {
    ModelBuilder& b = builder_;
    auto scope = b.scope("self_attn");
    scope.local(x);
    const std::int64_t head_width = config_.plain_width + config_.rotary_width;
    const std::int64_t wide = config_.heads * head_width;
    TensorId q = x;
    if (config_.query_rank > 0) {
      q = b.rms_norm("q_a_layernorm", b.linear("q_a_proj", x, config_.query_rank, false),
                     !options_.fused_norms);
      q = b.linear("q_b_proj", q, wide, false);
    } else {
      q = b.linear("q_proj", x, wide, false);
    }
    const std::vector<TensorId> queries =
        split(split_heads(b, q, config_.heads), config_.plain_width, config_.rotary_width);
    const std::vector<TensorId> latent =
        split(b.linear("kv_a_proj_with_mqa", x, config_.kv_rank + config_.rotary_width, false),
              config_.kv_rank, config_.rotary_width);
    const TensorId kv =
        b.linear("kv_b_proj", b.rms_norm("kv_a_layernorm", latent[0], !options_.fused_norms),
                 config_.heads * (config_.plain_width + config_.value_width), false);
    const std::vector<TensorId> keys =
        split(split_heads(b, kv, config_.heads), config_.plain_width, config_.value_width);
    TensorId shared = b.view(latent[1], {options_.micro_batch, 1, sequence_, config_.rotary_width});
    shared = b.expand(b.rotary(shared, cos_, sin_),
                      {options_.micro_batch, config_.heads, sequence_, config_.rotary_width});
    q = b.cat({queries[0], b.rotary(queries[1], cos_, sin_)}, 3);
    const TensorId k = b.cat({keys[0], shared}, 3);
    for (const TensorId variable : {q, k, keys[1]})
      scope.local(variable);
    const TensorId y =
        hf_attention(b, q, k, keys[1], {.kind = options_.attention, .causal = true, .mask = mask_});
    return b.linear("o_proj", merge_heads(b, y), config_.width, false);
  }

  TensorId feed_forward(std::string_view module, TensorId x, std::int64_t ffn) {
    ModelBuilder& b = builder_;
    auto scope = b.scope(module);
    scope.local(x);
    const TensorId gate = b.activation("silu", b.linear("gate_proj", x, ffn, false));
    return b.linear("down_proj", b.multiply(gate, b.linear("up_proj", x, ffn, false)),
                    config_.width, false);
  }

  // Sums what the chosen experts and the shared ones return.
  TensorId mixture(TensorId x) {
    ModelBuilder& b = builder_;
    if (config_.corrects_scores) {
      const auto scope = b.scope("mlp.gate");
      static_cast<void>(b.frozen_parameter("e_score_correction_bias", {config_.experts}));
    }
    const TensorId routed = mixture_of_experts(b, "mlp", x,
                                               {.experts = config_.experts,
                                                .per_token = config_.experts_per_token,
                                                .ffn = config_.expert_ffn,
                                                .grouped = true});
    if (config_.shared_experts == 0) return routed;
    return b.add_tensors(
        routed, feed_forward("mlp.shared_experts", x, config_.shared_experts * config_.expert_ffn));
  }

  const DeepseekConfig& config_;
  const ModelOptions& options_;
  std::int64_t sequence_;
  ModelBuilder builder_;
  TensorId cos_;
  TensorId sin_;
  TensorId mask_;
};

DeepseekConfig deepseek_v2() {
  return {.layers = 60,
          .width = 5120,
          .heads = 128,
          .query_rank = 1536,
          .ffn = 12288,
          .expert_ffn = 1536,
          .experts = 160};
}

DeepseekConfig deepseek_v3() {
  return {.layers = 61,
          .width = 7168,
          .heads = 128,
          .query_rank = 1536,
          .ffn = 18432,
          .dense_layers = 3,
          .expert_ffn = 2048,
          .experts = 256,
          .experts_per_token = 8,
          .shared_experts = 1,
          .corrects_scores = true,
          .vocab = 129280};
}

}  // namespace
}  // namespace deepseek_detail

DeepseekConfig decode_deepseek(const Decoder& overrides, DeepseekConfig defaults) {
  const Decoder& d = overrides;
  DeepseekConfig config = defaults;
  config.layers = d.optional<std::int64_t>("layers", config.layers, up_to(kMaxLayers));
  config.width = d.optional<std::int64_t>("width", config.width, up_to(kMaxWidth));
  config.heads = d.optional<std::int64_t>("heads", config.heads, up_to(kMaxHeads / 64));
  config.ffn = d.optional<std::int64_t>("ffn", config.ffn, up_to(kMaxWidth));
  config.dense_layers = d.optional<std::int64_t>("dense_layers", config.dense_layers,
                                                 between(0, static_cast<double>(kMaxLayers)));
  config.expert_ffn = d.optional<std::int64_t>("expert_ffn", config.expert_ffn, up_to(kMaxWidth));
  config.experts = d.optional<std::int64_t>("experts", config.experts, up_to(kMaxExperts));
  config.experts_per_token =
      d.optional<std::int64_t>("experts_per_token", config.experts_per_token, up_to(kMaxExperts));
  config.vocab = d.optional<std::int64_t>("vocab", config.vocab, up_to(kMaxVocabulary));
  config.positions = d.optional<std::int64_t>("sequence", config.positions, up_to(kMaxSequence));
  config.tie = d.optional<bool>("tie", config.tie);
  if (config.experts_per_token > config.experts) {
    d.fail_at("experts_per_token", fmt::format("a token cannot take {} of {} experts",
                                               config.experts_per_token, config.experts));
  }
  return config;
}

Graph build_deepseek(const DeepseekConfig& config, const std::string& name,
                     const ModelOptions& options) {
  check_options(options);
  return deepseek_detail::DeepseekBuilder(config, name, options).build();
}

std::vector<ModelPreset> deepseek_presets() {
  const auto preset = [](std::string name, std::string summary, DeepseekConfig config) {
    return make_preset<DeepseekConfig>(std::move(name), "language", std::move(summary), config,
                                       decode_deepseek, build_deepseek);
  };
  return {
      preset("deepseek-v2-lite", "DeepSeek V2 Lite, 15.7 B parameters, latent attention", {}),
      preset("deepseek-v2", "DeepSeek V2, 236 B parameters, latent attention",
             deepseek_detail::deepseek_v2()),
      preset("deepseek-v3", "DeepSeek V3, 671 B parameters, latent attention",
             deepseek_detail::deepseek_v3()),
  };
}

}  // namespace tidemark
