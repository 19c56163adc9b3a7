#include "graph/models/decoders/gpt.hpp"

#include <array>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "graph/models/generation/decoder_passes.hpp"
#include "graph/models/language.hpp"
#include "graph/models/model_limits.hpp"
#include "graph/models/preset.hpp"

namespace tidemark {

namespace gpt_detail {
namespace {

class GptBuilder {
 public:
  GptBuilder(const GptConfig& config, const std::string& name, const ModelOptions& options)
      : config_(config),
        options_(options),
        sequence_(sequence_of(options, config.positions, true)),
        ffn_(config.ffn.value_or(4 * config.width)),
        builder_(name, options.dtype),
        passes_(builder_, options, sequence_) {}

  Graph build() {
    check_transformer_size({.batch = options_.micro_batch,
                            .sequence = sequence_,
                            .heads = config_.heads,
                            .ffn = ffn_,
                            .vocab = config_.vocab});
    ModelBuilder& b = builder_;
    const TensorId logits = passes_.run([&](TensorId tokens) { return forward(tokens); });
    b.set_output(logits);
    b.set_samples(options_.micro_batch, passes_.tokens());
    add_language_loss(b, logits, options_.loss, config_.code == GptCode::kHuggingFace,
                      options_.keeps_narrow_logits && config_.code == GptCode::kNanoGpt);
    return checked(b.finish());
  }

 private:
  [[nodiscard]] double dropout(double own) const { return options_.dropout.value_or(own); }

  // x = drop(wte(tokens) + wpe(positions)); x = block(x) for each; return lm_head(ln_f(x))
  TensorId forward(TensorId tokens) {
    ModelBuilder& b = builder_;
    auto frame = b.frame();
    TensorId token_weight;
    const TensorId embedded =
        b.embedding("wte", tokens, config_.vocab, config_.width, &token_weight);
    const TensorId ids = position_ids(b, passes_.length());
    frame.local_in_evaluation(ids);
    const TensorId positions = b.embedding("wpe", ids, config_.positions, config_.width);
    TensorId x = b.add_tensors(embedded, positions);
    x = b.dropout(x, dropout(config_.embedding_dropout));
    for (std::int64_t i = 0; i < config_.layers; ++i)
      x = block(i, x);
    // Hugging Face's code writes hidden_states = ln_f(hidden_states).
    if (config_.code != GptCode::kHuggingFace) frame.local_in_evaluation(x);
    x = passes_.wanted(b.layer_norm("ln_f", x));
    return config_.tie ? b.linear_with(x, token_weight)
                       : b.linear("lm_head", x, config_.vocab, false);
  }

  // Hugging Face keeps the weights as OpenAI's code does, [in, out].
  TensorId product(std::string_view module, TensorId x, std::int64_t features) {
    return config_.code == GptCode::kHuggingFace ? builder_.conv1d_linear(module, x, features)
                                                 : builder_.linear(module, x, features);
  }

  // x = x + attn(ln_1(x)); x = x + mlp(ln_2(x))
  TensorId block(std::int64_t index, TensorId x) {
    ModelBuilder& b = builder_;
    const auto scope = b.block(fmt::format("h.{}", index));
    x = b.add_tensors(x, attention(b.layer_norm("ln_1", x)));
    return b.add_tensors(x, feed_forward(b.layer_norm("ln_2", x)));
  }

  TensorId attention(TensorId x) {
    ModelBuilder& b = builder_;
    auto scope = b.scope("attn");
    scope.local(x);
    const TensorId mask = passes_.mask(mask_buffer());
    const std::vector<TensorId> parts =
        b.split(product("c_attn", x, 3 * config_.width), config_.width, 2);
    // q, k and v are views of the fused projection. As variables of forward() they keep it alive
    // until the module returns, also where attention works on copies of them.
    std::array<TensorId, 3> heads;
    for (std::size_t i = 0; i < heads.size(); ++i) {
      heads[i] = split_heads(b, parts[i], config_.heads);
      scope.local(heads[i]);
    }
    passes_.remember(heads[1], heads[2]);
    TensorId y = passes_.paged() ? passes_.attend_paged(heads[0], heads[1], heads[2])
                                 : b.attention(heads[0], heads[1], heads[2], options_.attention,
                                               passes_.causal() || mask.valid(),
                                               dropout(config_.attention_dropout), mask);
    y = merge_heads(b, y);
    y = product("c_proj", y, config_.width);
    return b.dropout(y, dropout(config_.residual_dropout));
  }

  TensorId feed_forward(TensorId x) {
    ModelBuilder& b = builder_;
    auto scope = b.scope("mlp");
    scope.local(x);
    x = activate(b, config_.activation, product("c_fc", x, ffn_));
    x = product("c_proj", x, config_.width);
    return b.dropout(x, dropout(config_.residual_dropout));
  }

  // torch.tril(torch.ones(T, T)) for the longest sequence; invalid where the code has none.
  TensorId mask_buffer() {
    const bool hugging_face = config_.code == GptCode::kHuggingFace;
    if (options_.attention != AttentionKind::kMath && !hugging_face) return {};
    return builder_.buffer("bias", {1, 1, config_.positions, config_.positions},
                           hugging_face ? DType::kBool : builder_.dtype());
  }

  const GptConfig& config_;
  const ModelOptions& options_;
  std::int64_t sequence_;
  std::int64_t ffn_;
  ModelBuilder builder_;
  DecoderPasses passes_;
};

// Radford et al. 2019 as published by Hugging Face: dropout 0.1 everywhere, gelu_new.
GptConfig gpt2(std::int64_t layers, std::int64_t width, std::int64_t heads) {
  return {.layers = layers,
          .width = width,
          .heads = heads,
          .vocab = 50257,
          .positions = 1024,
          .activation = "new_gelu",
          .embedding_dropout = 0.1,
          .attention_dropout = 0.1,
          .residual_dropout = 0.1,
          .code = GptCode::kHuggingFace};
}

}  // namespace
}  // namespace gpt_detail

GptConfig decode_gpt(const Decoder& overrides, GptConfig defaults) {
  const Decoder& d = overrides;
  GptConfig config = std::move(defaults);
  config.layers = d.optional<std::int64_t>("layers", config.layers, up_to(kMaxLayers));
  config.width = d.optional<std::int64_t>("width", config.width, up_to(kMaxWidth));
  config.heads = d.optional<std::int64_t>("heads", config.heads, up_to(kMaxHeads));
  config.vocab = d.optional<std::int64_t>("vocab", config.vocab, up_to(kMaxVocabulary));
  config.positions = d.optional<std::int64_t>("sequence", config.positions, up_to(kMaxSequence));
  if (const auto ffn = d.maybe<std::int64_t>("ffn", up_to(kMaxWidth))) config.ffn = ffn;
  config.activation = d.optional_word("activation", activation_names(), config.activation);
  if (const auto dropout = d.maybe<double>("dropout", between(0, 1))) {
    config.embedding_dropout = *dropout;
    config.attention_dropout = *dropout;
    config.residual_dropout = *dropout;
  }
  config.tie = d.optional<bool>("tie", config.tie);
  check_gpt_heads(d, "heads", config);
  return config;
}

void check_gpt_heads(const Decoder& config, std::string_view key, const GptConfig& gpt) {
  require_divides(config, key, gpt.heads, "heads", gpt.width,
                  fmt::format("a width of {}", gpt.width));
}

Graph build_gpt(const GptConfig& config, const std::string& name, const ModelOptions& options) {
  check_options(options);
  return gpt_detail::GptBuilder(config, name, options).build();
}

std::vector<ModelPreset> gpt_presets() {
  const auto preset = [](std::string name, std::string summary, GptConfig config) {
    return make_preset<GptConfig>(std::move(name), "language", std::move(summary),
                                  std::move(config), decode_gpt, build_gpt);
  };
  return {
      preset("gpt", "GPT-2 as nanoGPT writes it, with free sizes", {}),
      preset("gpt2", "GPT-2 small, 124 M parameters (Hugging Face)", gpt_detail::gpt2(12, 768, 12)),
      preset("gpt2-medium", "GPT-2 medium, 355 M parameters (Hugging Face)",
             gpt_detail::gpt2(24, 1024, 16)),
      preset("gpt2-large", "GPT-2 large, 774 M parameters (Hugging Face)",
             gpt_detail::gpt2(36, 1280, 20)),
      preset("gpt2-xl", "GPT-2 XL, 1.56 B parameters (Hugging Face)",
             gpt_detail::gpt2(48, 1600, 25)),
  };
}

}  // namespace tidemark
