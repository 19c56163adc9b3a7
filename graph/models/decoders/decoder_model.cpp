#include "graph/models/decoders/decoder_model.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "graph/models/experts.hpp"
#include "graph/models/language.hpp"
#include "graph/models/model_limits.hpp"

namespace tidemark {
namespace decoder_model_detail {
namespace {

class DecoderBuilder {
 public:
  DecoderBuilder(const DecoderConfig& config, const std::string& name, const ModelOptions& options)
      : config_(config),
        options_(options),
        sequence_(sequence_of(options,
                              config.position_table > 0 ? config.position_table : config.positions,
                              config.position_table > 0)),
        builder_(name, options.dtype) {}

  Graph build() {
    check_transformer_size({.batch = options_.micro_batch,
                            .sequence = sequence_,
                            .heads = config_.heads,
                            .ffn = config_.ffn,
                            .vocab = config_.vocab});
    ModelBuilder& b = builder_;
    const DecoderNames& names = config_.names;
    const TensorId tokens = b.input("tokens", {options_.micro_batch, sequence_}, DType::kInt64);
    add_buffers();
    TensorId table;
    TensorId x = b.embedding(names.embedding, tokens, config_.vocab, config_.width, &table);
    if (config_.scales_embedding) x = b.scale(x);
    if (config_.position_table > 0) {
      x = b.add_tensors(
          x, b.embedding("wpe", position_ids(b, sequence_), config_.position_table, config_.width));
    }
    x = b.dropout(x, dropout(config_.embedding_dropout));
    for (std::int64_t i = 0; i < config_.layers; ++i)
      x = block(i, x);
    x = norm(names.final_norm, x);
    TensorId logits = config_.tie ? b.linear_with(x, table)
                                  : b.linear("lm_head", x, config_.vocab, config_.head_bias);
    if (config_.caps_logits) logits = capped(logits);
    b.set_output(logits);
    b.set_samples(options_.micro_batch, options_.micro_batch * sequence_);
    add_language_loss(b, logits, options_.loss, config_.upcasts_logits,
                      options_.keeps_narrow_logits && !config_.upcasts_logits);
    return checked(b.finish());
  }

 private:
  [[nodiscard]] double dropout(double own) const { return options_.dropout.value_or(own); }

  void add_buffers() {
    ModelBuilder& b = builder_;
    if (config_.rotary_width > 0) {
      cos_ = b.buffer("rotary_emb.cos", {sequence_, config_.rotary_width}, b.dtype());
      sin_ = b.buffer("rotary_emb.sin", {sequence_, config_.rotary_width}, b.dtype());
    }
    if (options_.attention == AttentionKind::kMath) {
      mask_ = b.buffer("causal_mask", {1, 1, sequence_, sequence_}, b.dtype());
    }
    if (config_.alibi) alibi_ = b.buffer("alibi", {1, config_.heads, 1, sequence_}, b.dtype());
  }

  // x / cap, tanh, * cap
  TensorId capped(TensorId x) {
    ModelBuilder& b = builder_;
    return b.scale(b.activation("tanh", b.scale(x)));
  }

  TensorId norm(std::string_view module, TensorId x) {
    ModelBuilder& b = builder_;
    switch (config_.norm) {
      case DecoderNorm::kLayer:
        return b.layer_norm(module, x);
      case DecoderNorm::kLayerNoBias:
        return b.layer_norm(module, x, false);
      case DecoderNorm::kRms:
        return b.rms_norm(module, x, !options_.fused_norms);
      case DecoderNorm::kRmsInFp32:
        break;
    }
    // output = x.float() * rsqrt(mean(x^2)); (output * (1 + weight.float())).type_as(x)
    const auto layer = b.scope(module);
    const TensorId weight = b.parameter("weight", {b.shape(x)[-1]});
    const TensorId hidden = b.cast(x, DType::kFloat32);
    const TensorId variance =
        b.add("mean", {b.add("pow", {hidden}, {{"exponent", 2.0}})},
              {{"axes", std::vector<std::int64_t>{-1}}, {"keepdim", std::int64_t{1}}});
    const TensorId rstd = b.add("rsqrt", {b.add("add_scalar", {variance})});
    const TensorId factor = b.add("add_scalar", {b.cast(weight, DType::kFloat32)});
    return b.cast(b.multiply(b.multiply(hidden, rstd), factor), b.tensor(x).dtype);
  }

  TensorId block(std::int64_t index, TensorId x) {
    ModelBuilder& b = builder_;
    const DecoderNames& names = config_.names;
    auto scope = b.block(fmt::format("{}.{}", names.block, index));
    scope.local(x);
    const TensorId normed = norm(names.first_norm, x);
    TensorId attended = attention(normed);
    switch (config_.block) {
      case DecoderBlock::kParallel:
      case DecoderBlock::kParallelNorms: {
        const TensorId input =
            config_.block == DecoderBlock::kParallel ? normed : norm(names.second_norm, x);
        return b.add_tensors(b.add_tensors(attended, feed_forward(index, input)), x);
      }
      case DecoderBlock::kSequential: {
        const TensorId y = b.add_tensors(x, attended);
        return b.add_tensors(y, feed_forward(index, norm(names.second_norm, y)));
      }
      case DecoderBlock::kSandwich:
        break;
    }
    const TensorId y = b.add_tensors(x, norm(names.second_norm, attended));
    const TensorId z = feed_forward(index, norm("pre_feedforward_layernorm", y));
    return b.add_tensors(y, norm("post_feedforward_layernorm", z));
  }

  TensorId attention(TensorId x) {
    ModelBuilder& b = builder_;
    const DecoderNames& names = config_.names;
    auto scope = b.scope(names.attention);
    scope.local(x);
    auto [q, k, v] = projections(x);
    q = rotate(query_key_norm("q", q, config_.heads));
    k = rotate(query_key_norm("k", k, config_.kv_heads));
    k = repeat_heads(b, k, config_.heads);
    v = repeat_heads(b, v, config_.heads);
    for (const TensorId variable : {q, k, v})
      scope.local(variable);
    TensorId y =
        b.linear(names.output, merge_heads(b, mixed(q, k, v)), config_.width, config_.output_bias);
    return b.dropout(y, dropout(config_.residual_dropout));
  }

  // Fused attention takes ALiBi as its mask and has no capped scores; eager attention adds both.
  TensorId mixed(TensorId q, TensorId k, TensorId v) {
    ModelBuilder& b = builder_;
    const bool math = options_.attention == AttentionKind::kMath;
    if (!math || (!config_.caps_scores && !config_.alibi)) {
      return hf_attention(b, q, k, v,
                          {.kind = options_.attention,
                           .causal = true,
                           .dropout = dropout(config_.attention_dropout),
                           .mask = mask_});
    }
    TensorId scores = b.scale(b.matmul(q, b.transpose(k, 2, 3)));
    if (config_.caps_scores) scores = capped(scores);
    if (config_.alibi) scores = b.add_tensors(scores, alibi_);
    scores = b.add_tensors(scores, mask_);
    const DType narrow = b.tensor(scores).dtype;
    scores = b.add("softmax", {scores}, {{"axis", std::int64_t{-1}}, {"dtype", "fp32"}});
    if (narrow != DType::kFloat32) scores = b.cast(scores, narrow);
    return b.matmul(b.dropout(scores, dropout(config_.attention_dropout)), v);
  }

  struct Heads {
    TensorId q;
    TensorId k;
    TensorId v;
  };
  Heads projections(TensorId x) {
    ModelBuilder& b = builder_;
    const std::int64_t wide = config_.heads * config_.head_width;
    const std::int64_t narrow = config_.kv_heads * config_.head_width;
    const bool bias = config_.projection_bias;
    Heads heads;
    if (config_.fused_projection) {
      const TensorId all = b.linear(config_.names.fused, x, wide + 2 * narrow, bias);
      const std::vector<std::int64_t> sizes{wide, narrow, narrow};
      const std::vector<TensorId> parts =
          b.add_many("split", {all}, {{"sizes", sizes}, {"axis", std::int64_t{2}}});
      heads = {.q = parts[0], .k = parts[1], .v = parts[2]};
    } else {
      heads = {.q = b.linear("q_proj", x, wide, bias),
               .k = b.linear("k_proj", x, narrow, bias),
               .v = b.linear("v_proj", x, narrow, bias)};
    }
    return {.q = split_heads(b, heads.q, config_.heads),
            .k = split_heads(b, heads.k, config_.kv_heads),
            .v = split_heads(b, heads.v, config_.kv_heads)};
  }

  TensorId query_key_norm(std::string_view of, TensorId x, std::int64_t heads) {
    ModelBuilder& b = builder_;
    if (config_.query_key_norm == QueryKeyNorm::kShared) return norm(fmt::format("{}_norm", of), x);
    if (config_.query_key_norm == QueryKeyNorm::kNone) return x;
    std::vector<TensorId> parts = b.split(x, 1, 1);
    for (std::int64_t i = 0; i < heads; ++i) {
      const auto at = static_cast<std::size_t>(i);
      parts[at] = b.layer_norm(fmt::format("{}_layernorm.norms.{}", of, i), parts[at], false);
    }
    return b.cat(parts, 1);
  }

  // Turns the first elements of each head: cat(rotated, passed).
  TensorId rotate(TensorId x) {
    ModelBuilder& b = builder_;
    const std::int64_t width = b.shape(x)[-1];
    if (config_.rotary_width == 0) return x;
    if (config_.rotary_width == width) return b.rotary(x, cos_, sin_);
    const std::vector<std::int64_t> sizes{config_.rotary_width, width - config_.rotary_width};
    const std::vector<TensorId> parts =
        b.add_many("split", {x}, {{"sizes", sizes}, {"axis", std::int64_t{3}}});
    return b.cat({b.rotary(parts[0], cos_, sin_), parts[1]}, 3);
  }

  TensorId activated(TensorId x) {
    ModelBuilder& b = builder_;
    if (config_.activation != "relu2") return activate(b, config_.activation, x);
    return b.add("pow", {b.activation("relu", x)}, {{"exponent", 2.0}});
  }

  [[nodiscard]] bool is_mixture(std::int64_t index) const {
    const std::vector<std::int64_t>& dense = config_.dense_blocks;
    return config_.experts > 0 && (index + 1) % config_.sparse_step == 0 &&
           std::find(dense.begin(), dense.end(), index) == dense.end();
  }

  TensorId feed_forward(std::int64_t index, TensorId x) {
    ModelBuilder& b = builder_;
    const DecoderNames& names = config_.names;
    if (is_mixture(index)) {
      return mixture_of_experts(b, names.mlp, x,
                                {.experts = config_.experts,
                                 .per_token = config_.experts_per_token,
                                 .ffn = config_.expert_ffn,
                                 .activation = config_.activation,
                                 .capacity_factor = config_.capacity_factor,
                                 .normalises = config_.normalises_experts,
                                 .gate = names.gate,
                                 .up = names.up,
                                 .down = names.down});
    }
    TensorId y;
    {
      auto scope = b.scope(names.mlp);
      scope.local(x);
      if (!config_.gated) {
        y = activated(b.linear(names.up, x, config_.ffn, config_.ffn_bias));
      } else if (config_.fused_gate) {
        const std::vector<TensorId> halves =
            b.split(b.linear("gate_up_proj", x, 2 * config_.ffn, config_.ffn_bias), config_.ffn, 2);
        y = b.multiply(halves[1], activated(halves[0]));
      } else {
        const TensorId gate = activated(b.linear(names.gate, x, config_.ffn, config_.ffn_bias));
        y = b.multiply(gate, b.linear(names.up, x, config_.ffn, config_.ffn_bias));
      }
      y = b.linear(names.down, y, config_.width, config_.ffn_bias);
    }
    return b.dropout(y, dropout(config_.residual_dropout));
  }

  const DecoderConfig& config_;
  const ModelOptions& options_;
  std::int64_t sequence_;
  ModelBuilder builder_;
  TensorId cos_;
  TensorId sin_;
  TensorId mask_;
  TensorId alibi_;
};

std::vector<std::string_view> decoder_activations() {
  std::vector<std::string_view> names(activation_names().begin(), activation_names().end());
  names.push_back("relu2");
  return names;
}

}  // namespace
}  // namespace decoder_model_detail

DecoderConfig decode_decoder(const Decoder& overrides, DecoderConfig defaults) {
  const Decoder& d = overrides;
  DecoderConfig config = std::move(defaults);
  config.layers = d.optional<std::int64_t>("layers", config.layers, up_to(kMaxLayers));
  config.width = d.optional<std::int64_t>("width", config.width, up_to(kMaxWidth));
  config.heads = d.optional<std::int64_t>("heads", config.heads, up_to(kMaxHeads));
  config.kv_heads = d.optional<std::int64_t>("kv_heads", config.kv_heads, up_to(kMaxHeads));
  config.head_width = d.optional<std::int64_t>("head_width", config.head_width, up_to(kMaxWidth));
  config.ffn = d.optional<std::int64_t>("ffn", config.ffn, up_to(kMaxWidth));
  config.vocab = d.optional<std::int64_t>("vocab", config.vocab, up_to(kMaxVocabulary));
  config.positions = d.optional<std::int64_t>("sequence", config.positions, up_to(kMaxSequence));
  if (config.experts > 0) {
    config.experts = d.optional<std::int64_t>("experts", config.experts, up_to(kMaxExperts));
    config.experts_per_token =
        d.optional<std::int64_t>("experts_per_token", config.experts_per_token, up_to(kMaxExperts));
    config.expert_ffn = d.optional<std::int64_t>("expert_ffn", config.expert_ffn, up_to(kMaxWidth));
    config.capacity_factor = d.maybe<double>("capacity_factor", above(0));
    if (config.experts_per_token > config.experts) {
      d.fail_at("experts_per_token", fmt::format("a token cannot take {} of {} experts",
                                                 config.experts_per_token, config.experts));
    }
  }
  config.activation =
      d.optional_word("activation", decoder_model_detail::decoder_activations(), config.activation);
  if (const auto dropout = d.maybe<double>("dropout", between(0, 1))) {
    config.embedding_dropout = *dropout;
    config.attention_dropout = *dropout;
    config.residual_dropout = *dropout;
  }
  config.tie = d.optional<bool>("tie", config.tie);
  config.rotary_width = std::min(config.rotary_width, config.head_width);
  check_decoder(d, {.heads = "heads", .kv_heads = "kv_heads", .rotary = "head_width"}, config);
  return config;
}

void check_decoder(const Decoder& config, const DecoderKeys& keys, const DecoderConfig& decoder) {
  require_divides(config, keys.kv_heads, decoder.kv_heads, "key-value heads", decoder.heads,
                  fmt::format("{} attention heads", decoder.heads));
  if (decoder.rotary_width % 2 != 0 || decoder.rotary_width > decoder.head_width) {
    config.fail_at(keys.rotary,
                   fmt::format("rotary positions would turn {} of the {} elements of a head; they "
                               "turn pairs, so that must be even",
                               decoder.rotary_width, decoder.head_width));
  }
  if (decoder.heads * decoder.head_width > kMaxWidth) {
    config.fail_at(keys.heads, fmt::format("{} heads of width {} are wider than {} together",
                                           decoder.heads, decoder.head_width, kMaxWidth));
  }
}

Graph build_decoder(const DecoderConfig& config, const std::string& name,
                    const ModelOptions& options) {
  check_options(options);
  return decoder_model_detail::DecoderBuilder(config, name, options).build();
}

}  // namespace tidemark
