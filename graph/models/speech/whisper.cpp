#include "graph/models/speech/whisper.hpp"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "graph/models/language.hpp"
#include "graph/models/model_limits.hpp"
#include "graph/models/preset.hpp"

namespace tidemark {
namespace whisper_detail {
namespace {

class WhisperBuilder {
 public:
  WhisperBuilder(const WhisperConfig& config, const std::string& name, const ModelOptions& options)
      : config_(config),
        options_(options),
        sequence_(sequence_of(options, config.target_positions, true)),
        builder_(name, options.dtype) {}

  Graph build() {
    check_transformer_size({.batch = options_.micro_batch,
                            .sequence = std::max(sequence_, config_.source_positions),
                            .heads = std::max(config_.encoder_heads, config_.decoder_heads),
                            .ffn = std::max(config_.encoder_ffn, config_.decoder_ffn),
                            .vocab = config_.vocab});
    ModelBuilder& b = builder_;
    const std::int64_t batch = options_.micro_batch;
    const TensorId features = b.input(
        "input_features", {batch, config_.mel_bins, 2 * config_.source_positions}, b.dtype());
    const TensorId tokens = b.input("tokens", {batch, sequence_}, DType::kInt64);
    if (options_.attention == AttentionKind::kMath) {
      mask_ = b.buffer("causal_mask", {1, 1, sequence_, sequence_}, b.dtype());
    }
    encoded_ = encoder(features);
    TensorId table;
    const TensorId x = decoder(tokens, table);
    const TensorId logits =
        config_.tie ? b.linear_with(x, table) : b.linear("proj_out", x, config_.vocab, false);
    b.set_output(logits);
    b.set_samples(batch, batch * sequence_);
    add_language_loss(b, logits, options_.loss, false);
    return checked(b.finish());
  }

 private:
  [[nodiscard]] double dropout(double own) const { return options_.dropout.value_or(own); }

  TensorId convolution(std::string_view module, TensorId x, std::int64_t stride) {
    ModelBuilder& b = builder_;
    const auto scope = b.scope(module);
    const TensorId weight = b.parameter("weight", {config_.width, b.shape(x)[1], 3});
    const TensorId bias = b.parameter("bias", {config_.width});
    return b.activation("gelu", b.add("conv1d", {x, weight, bias},
                                      {{"stride", stride},
                                       {"padding", std::int64_t{1}},
                                       {"dilation", std::int64_t{1}},
                                       {"groups", std::int64_t{1}}}));
  }

  // x = gelu(conv2(gelu(conv1(features)))).permute(0, 2, 1) + embed_positions.weight
  TensorId encoder(TensorId x) {
    ModelBuilder& b = builder_;
    const auto scope = b.scope("encoder");
    x = convolution("conv2", convolution("conv1", x, 1), 2);
    x = b.transpose(x, 1, 2);
    // Sinusoids, which are not trained.
    x = b.add_tensors(
        x, b.frozen_parameter("embed_positions.weight", {config_.source_positions, config_.width}));
    x = b.dropout(x, dropout(config_.dropout));
    for (std::int64_t i = 0; i < config_.encoder_layers; ++i) {
      auto block = b.block(fmt::format("layers.{}", i));
      block.local(x);
      x = attended("self_attn", "self_attn_layer_norm", x, {}, config_.encoder_heads);
      x = feed_forward(x, config_.encoder_ffn);
    }
    return b.layer_norm("layer_norm", x);
  }

  TensorId decoder(TensorId tokens, TensorId& table) {
    ModelBuilder& b = builder_;
    const auto scope = b.scope("decoder");
    TensorId x = b.embedding("embed_tokens", tokens, config_.vocab, config_.width, &table);
    x = b.add_tensors(x, b.embedding("embed_positions", position_ids(b, sequence_),
                                     config_.target_positions, config_.width));
    x = b.dropout(x, dropout(config_.dropout));
    for (std::int64_t i = 0; i < config_.decoder_layers; ++i) {
      auto block = b.block(fmt::format("layers.{}", i));
      block.local(x);
      x = attended("self_attn", "self_attn_layer_norm", x, {}, config_.decoder_heads, true);
      x = attended("encoder_attn", "encoder_attn_layer_norm", x, encoded_, config_.decoder_heads);
      x = feed_forward(x, config_.decoder_ffn);
    }
    return b.layer_norm("layer_norm", x);
  }

  // x + dropout(attention(norm(x))); keys and values are of `context`, or of the same input.
  TensorId attended(std::string_view module, std::string_view norm, TensorId x, TensorId context,
                    std::int64_t heads, bool causal = false) {
    ModelBuilder& b = builder_;
    const TensorId y = b.layer_norm(norm, x);
    const TensorId source = context.valid() ? context : y;
    TensorId mixed;
    {
      auto scope = b.scope(module);
      scope.local(y);
      const std::int64_t width = config_.width;
      const TensorId q = split_heads(b, b.scale(b.linear("q_proj", y, width)), heads);
      const TensorId k = split_heads(b, b.linear("k_proj", source, width, false), heads);
      const TensorId v = split_heads(b, b.linear("v_proj", source, width), heads);
      for (const TensorId variable : {q, k, v})
        scope.local(variable);
      mixed = hf_attention(b, q, k, v,
                           {.kind = options_.attention,
                            .causal = causal,
                            .dropout = dropout(config_.attention_dropout),
                            .mask = causal ? mask_ : TensorId(),
                            .softmax_in_fp32 = false});
      mixed = b.linear("out_proj", merge_heads(b, mixed), width);
    }
    return b.add_tensors(x, b.dropout(mixed, dropout(config_.dropout)));
  }

  TensorId feed_forward(TensorId x, std::int64_t ffn) {
    ModelBuilder& b = builder_;
    TensorId y = b.layer_norm("final_layer_norm", x);
    y = activate(b, config_.activation, b.linear("fc1", y, ffn));
    y = b.linear("fc2", b.dropout(y, dropout(config_.activation_dropout)), config_.width);
    return b.add_tensors(x, b.dropout(y, dropout(config_.dropout)));
  }

  const WhisperConfig& config_;
  const ModelOptions& options_;
  std::int64_t sequence_;
  ModelBuilder builder_;
  TensorId mask_;
  TensorId encoded_;
};

WhisperConfig sized(std::int64_t width, std::int64_t layers, std::int64_t heads) {
  return {.width = width,
          .encoder_layers = layers,
          .decoder_layers = layers,
          .encoder_heads = heads,
          .decoder_heads = heads,
          .encoder_ffn = 4 * width,
          .decoder_ffn = 4 * width};
}

// openai/whisper-large-v3: more mel bins and one more language.
WhisperConfig large_v3() {
  WhisperConfig config = sized(1280, 32, 20);
  config.mel_bins = 128;
  config.vocab = 51866;
  return config;
}

WhisperConfig large_v3_turbo() {
  WhisperConfig config = large_v3();
  config.decoder_layers = 4;
  return config;
}

}  // namespace
}  // namespace whisper_detail

WhisperConfig decode_whisper(const Decoder& overrides, WhisperConfig defaults) {
  const Decoder& d = overrides;
  WhisperConfig config = std::move(defaults);
  config.width = d.optional<std::int64_t>("width", config.width, up_to(kMaxWidth));
  config.encoder_layers =
      d.optional<std::int64_t>("encoder_layers", config.encoder_layers, up_to(kMaxLayers));
  config.decoder_layers =
      d.optional<std::int64_t>("decoder_layers", config.decoder_layers, up_to(kMaxLayers));
  config.encoder_heads = config.decoder_heads =
      d.optional<std::int64_t>("heads", config.encoder_heads, up_to(kMaxHeads));
  config.encoder_ffn = config.decoder_ffn =
      d.optional<std::int64_t>("ffn", config.encoder_ffn, up_to(kMaxWidth));
  config.vocab = d.optional<std::int64_t>("vocab", config.vocab, up_to(kMaxVocabulary));
  config.dropout = d.optional<double>("dropout", config.dropout, between(0, 1));
  require_divides(d, "heads", config.encoder_heads, "heads", config.width,
                  fmt::format("a width of {}", config.width));
  return config;
}

Graph build_whisper(const WhisperConfig& config, const std::string& name,
                    const ModelOptions& options) {
  check_options(options);
  return whisper_detail::WhisperBuilder(config, name, options).build();
}

std::vector<ModelPreset> whisper_presets() {
  const auto preset = [](std::string name, std::string summary, WhisperConfig config) {
    return make_preset<WhisperConfig>(std::move(name), "language", std::move(summary),
                                      std::move(config), decode_whisper, build_whisper);
  };
  using whisper_detail::sized;
  return {
      preset("whisper-tiny", "Whisper tiny, 37.8 M parameters, speech to text", sized(384, 4, 6)),
      preset("whisper-base", "Whisper base, 72.6 M parameters, speech to text", sized(512, 6, 8)),
      preset("whisper-small", "Whisper small, 242 M parameters, speech to text",
             sized(768, 12, 12)),
      preset("whisper-medium", "Whisper medium, 764 M parameters, speech to text",
             sized(1024, 24, 16)),
      preset("whisper-large-v2", "Whisper large v2, 1.54 B parameters, speech to text",
             sized(1280, 32, 20)),
      preset("whisper-large-v3", "Whisper large v3, 1.54 B parameters, speech to text",
             whisper_detail::large_v3()),
      preset("whisper-large-v3-turbo", "Whisper large v3 turbo, 809 M parameters, speech to text",
             whisper_detail::large_v3_turbo()),
  };
}

}  // namespace tidemark
