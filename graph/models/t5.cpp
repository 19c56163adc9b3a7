#include "graph/models/t5.hpp"

#include <utility>
#include <vector>

#include <fmt/format.h>

#include "graph/models/language.hpp"
#include "graph/models/model_limits.hpp"
#include "graph/models/preset.hpp"

namespace tidemark {

namespace t5_detail {
namespace {

class T5Builder {
 public:
  T5Builder(const T5Config& config, const std::string& name, const ModelOptions& options)
      : config_(config),
        options_(options),
        batch_(options.micro_batch),
        sequence_(sequence_of(options, config.positions, false)),
        dropout_(options.dropout.value_or(config.dropout)),
        builder_(name, options.dtype) {}

  Graph build() {
    check_transformer_size({.batch = batch_,
                            .sequence = sequence_,
                            .heads = config_.heads,
                            .ffn = config_.ffn,
                            .vocab = config_.vocab});
    ModelBuilder& b = builder_;
    const TensorId source = b.input("tokens", {batch_, sequence_}, DType::kInt64);
    const TensorId target = b.input("decoder_tokens", {batch_, sequence_}, DType::kInt64);
    // Masks of the encoder (padding) and of the decoder (causal), made once per forward pass.
    padding_mask_ = b.buffer("encoder_mask", {batch_, 1, 1, sequence_}, b.dtype());
    causal_mask_ = b.buffer("decoder_mask", {batch_, 1, sequence_, sequence_}, b.dtype());
    const TensorId table = b.parameter("shared.weight", {config_.vocab, config_.width});
    encoded_ = stack("encoder", source, table, config_.layers, false);
    TensorId x = stack("decoder", target, table, config_.decoder_layers, true);
    if (config_.tie) x = b.scale(x);  // scaled by width ** -0.5
    const TensorId logits =
        config_.tie ? b.linear_with(x, table) : b.linear("lm_head", x, config_.vocab, false);
    b.set_output(logits);
    b.set_samples(batch_, batch_ * sequence_);
    add_language_loss(b, logits, options_.loss, false);
    return checked(b.finish());
  }

 private:
  TensorId stack(std::string_view module, TensorId tokens, TensorId table, std::int64_t layers,
                 bool decoder) {
    ModelBuilder& b = builder_;
    auto scope = b.scope(module);
    TensorId x = b.dropout(b.add("embedding", {tokens, table}), dropout_);
    TensorId bias;   // [batch, heads, length, length], from the first layer on
    TensorId cross;  // bias of the decoder's attention to the encoder
    for (std::int64_t i = 0; i < layers; ++i) {
      const auto block = b.block(fmt::format("block.{}", i));
      x = self_attention(x, bias, decoder);
      if (decoder) x = cross_attention(x, cross);
      x = feed_forward(x, decoder ? "layer.2" : "layer.1");
    }
    scope.local(bias);
    if (decoder) scope.local(cross);
    return b.dropout(norm("final_layer_norm", x), dropout_);
  }

  TensorId self_attention(TensorId x, TensorId& bias, bool decoder) {
    ModelBuilder& b = builder_;
    const auto scope = b.scope("layer.0");
    const TensorId y = norm("layer_norm", x);
    const auto module = b.scope("SelfAttention");
    return b.add_tensors(x, b.dropout(attend(y, y, bias, decoder, true), dropout_));
  }

  TensorId cross_attention(TensorId x, TensorId& bias) {
    ModelBuilder& b = builder_;
    const auto scope = b.scope("layer.1");
    const TensorId y = norm("layer_norm", x);
    const auto module = b.scope("EncDecAttention");
    return b.add_tensors(x, b.dropout(attend(y, encoded_, bias, false, false), dropout_));
  }

  // softmax((q k^T + bias).float()).type_as(scores), dropout, times v; no scaling.
  TensorId attend(TensorId x, TensorId context, TensorId& bias, bool causal, bool relative) {
    ModelBuilder& b = builder_;
    const std::int64_t inner = config_.heads * config_.head_width;
    const auto project = [&](std::string_view module, TensorId of) {
      return split_heads(b, b.linear(module, of, inner, false), config_.heads);
    };
    const TensorId q = project("q", x);
    const TensorId k = project("k", context);
    const TensorId v = project("v", context);
    TensorId scores = b.matmul(q, b.transpose(k, 3, 2));
    if (!bias.valid()) bias = position_bias(causal, relative);
    scores = b.add_tensors(scores, bias, true);
    const DType narrow = b.tensor(scores).dtype;
    // softmax(scores.float(), dim=-1).type_as(scores)
    TensorId weights = b.softmax(b.cast(scores, DType::kFloat32));
    weights = b.dropout(b.cast_back(weights, narrow), dropout_);
    return b.linear("o", merge_heads(b, b.matmul(weights, v)), config_.width, false);
  }

  // compute_bias: relative_attention_bias(buckets).permute([2, 0, 1]).unsqueeze(0), plus the mask.
  // Without relative positions the bias starts as zeros.
  TensorId position_bias(bool causal, bool relative) {
    ModelBuilder& b = builder_;
    const TensorId mask = causal ? causal_mask_ : padding_mask_;
    const std::int64_t heads = config_.heads;
    if (!relative) {
      // zeros([1, heads, length, length]) + mask: as large as the mask repeated for every row.
      return b.contiguous(b.expand(mask, {batch_, heads, sequence_, sequence_}));
    }
    const TensorId buckets =
        b.add("zeros", {}, {{"shape", std::vector<std::int64_t>{sequence_, sequence_}}});
    TensorId values = b.embedding("relative_attention_bias", buckets, config_.buckets, heads);
    values = b.add("permute", {values}, {{"axes", std::vector<std::int64_t>{2, 0, 1}}});
    values = b.view(values, {1, heads, sequence_, sequence_});
    return b.add_tensors(values, mask);
  }

  TensorId feed_forward(TensorId x, std::string_view layer) {
    ModelBuilder& b = builder_;
    const auto scope = b.scope(layer);
    TensorId y = norm("layer_norm", x);
    {
      const auto module = b.scope("DenseReluDense");
      const auto wide = [&](std::string_view name) {
        return b.linear(name, y, config_.ffn, false);
      };
      if (config_.gated) {
        y = b.multiply(activate(b, config_.activation, wide("wi_0")), wide("wi_1"));
      } else {
        y = activate(b, config_.activation, wide("wi"));
      }
      y = b.linear("wo", b.dropout(y, dropout_), config_.width, false);
    }
    return b.add_tensors(x, b.dropout(y, dropout_));
  }

  // T5LayerNorm: weight * (x * rsqrt(x.to(float32).pow(2).mean(-1, keepdim) + eps)), back in the
  // weight's type before the weight if that is narrow.
  TensorId norm(std::string_view module, TensorId x) {
    ModelBuilder& b = builder_;
    const auto scope = b.scope(module);
    const TensorId weight = b.parameter("weight", {b.shape(x)[-1]});
    const TensorId squares = b.add("pow", {b.cast(x, DType::kFloat32)}, {{"exponent", 2.0}});
    const TensorId variance = b.add(
        "mean", {squares}, {{"axes", std::vector<std::int64_t>{-1}}, {"keepdim", std::int64_t{1}}});
    const TensorId scale = b.add("rsqrt", {b.add("add_scalar", {variance})});
    return b.multiply(weight, b.cast_back(b.multiply(x, scale), b.tensor(weight).dtype));
  }

  const T5Config& config_;
  const ModelOptions& options_;
  std::int64_t batch_;
  std::int64_t sequence_;
  double dropout_;
  ModelBuilder builder_;
  TensorId padding_mask_;
  TensorId causal_mask_;
  TensorId encoded_;
};

T5Config t5(std::int64_t layers, std::int64_t width, std::int64_t heads, std::int64_t ffn) {
  return {.layers = layers,
          .decoder_layers = layers,
          .width = width,
          .heads = heads,
          .head_width = 64,
          .ffn = ffn,
          .vocab = 32128};
}

}  // namespace
}  // namespace t5_detail

T5Config decode_t5(const Decoder& overrides, T5Config defaults) {
  const Decoder& d = overrides;
  T5Config config = std::move(defaults);
  config.layers = d.optional<std::int64_t>("layers", config.layers, up_to(kMaxLayers));
  config.decoder_layers =
      d.optional<std::int64_t>("decoder_layers", config.decoder_layers, up_to(kMaxLayers));
  config.width = d.optional<std::int64_t>("width", config.width, up_to(kMaxWidth));
  config.heads = d.optional<std::int64_t>("heads", config.heads, up_to(kMaxHeads));
  config.head_width = d.optional<std::int64_t>("head_width", config.head_width, up_to(kMaxWidth));
  config.ffn = d.optional<std::int64_t>("ffn", config.ffn, up_to(kMaxWidth));
  config.vocab = d.optional<std::int64_t>("vocab", config.vocab, up_to(kMaxVocabulary));
  config.positions = d.optional<std::int64_t>("sequence", config.positions, up_to(kMaxSequence));
  config.buckets = d.optional<std::int64_t>("buckets", config.buckets, up_to(kMaxSequence));
  config.activation = d.optional_word("activation", activation_names(), config.activation);
  config.gated = d.optional<bool>("gated", config.gated);
  config.dropout = d.optional<double>("dropout", config.dropout, between(0, 1));
  config.tie = d.optional<bool>("tie", config.tie);
  if (config.heads * config.head_width > kMaxWidth) {
    d.fail_at("head_width", fmt::format("{} heads of width {} are wider than {} together",
                                        config.heads, config.head_width, kMaxWidth));
  }
  return config;
}

Graph build_t5(const T5Config& config, const std::string& name, const ModelOptions& options) {
  check_options(options);
  return t5_detail::T5Builder(config, name, options).build();
}

std::vector<ModelPreset> t5_presets() {
  const auto preset = [](std::string name, std::string summary, T5Config config) {
    ModelPreset t5 = make_preset<T5Config>(std::move(name), "language", std::move(summary),
                                           std::move(config), decode_t5, build_t5);
    t5.attends = false;  // its attention has one form
    return t5;
  };
  return {
      preset("t5", "T5 as Hugging Face writes it, with free sizes", {}),
      preset("t5-small", "T5 small, 60.5 M parameters (Hugging Face)",
             t5_detail::t5(6, 512, 8, 2048)),
      preset("t5-base", "T5 base, 223 M parameters (Hugging Face)",
             t5_detail::t5(12, 768, 12, 3072)),
      preset("t5-large", "T5 large, 738 M parameters (Hugging Face)",
             t5_detail::t5(24, 1024, 16, 4096)),
  };
}

}  // namespace tidemark
