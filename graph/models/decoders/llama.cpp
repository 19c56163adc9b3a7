#include "graph/models/decoders/llama.hpp"

#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "graph/models/experts.hpp"
#include "graph/models/generation/decoder_passes.hpp"
#include "graph/models/language.hpp"
#include "graph/models/model_limits.hpp"
#include "graph/models/preset.hpp"

namespace tidemark {

namespace llama_detail {
namespace {

class LlamaBuilder {
 public:
  LlamaBuilder(const LlamaConfig& config, const std::string& name, const ModelOptions& options)
      : config_(config),
        options_(options),
        sequence_(sequence_of(options, config.positions, false)),
        head_width_(config.head_width.value_or(config.width / config.heads)),
        builder_(name, options.dtype),
        passes_(builder_, options, sequence_) {}

  Graph build() {
    check_transformer_size({.batch = options_.micro_batch,
                            .sequence = sequence_,
                            .heads = config_.heads,
                            .ffn = config_.ffn,
                            .vocab = config_.vocab});
    ModelBuilder& b = builder_;
    const TensorId logits = passes_.run([&](TensorId tokens) { return forward(tokens); });
    b.set_output(logits);
    b.set_samples(options_.micro_batch, passes_.tokens());
    add_language_loss(b, logits, options_.loss, true);
    return checked(b.finish());
  }

 private:
  TensorId forward(TensorId tokens) {
    ModelBuilder& b = builder_;
    // transformers computes cos and sin once per forward pass and shares them among all layers;
    // here they are buffers of the same size.
    cos_ = b.buffer("rotary_emb.cos", {sequence_, head_width_}, b.dtype());
    sin_ = b.buffer("rotary_emb.sin", {sequence_, head_width_}, b.dtype());
    if (options_.attention == AttentionKind::kMath) {
      mask_ = passes_.mask(b.buffer("causal_mask", {1, 1, sequence_, sequence_}, b.dtype()));
    }
    cos_ = passes_.positions(cos_);
    sin_ = passes_.positions(sin_);
    TensorId token_weight;
    TensorId x = b.embedding("embed_tokens", tokens, config_.vocab, config_.width, &token_weight);
    for (std::int64_t i = 0; i < config_.layers; ++i)
      x = block(i, x);
    x = passes_.wanted(b.rms_norm("norm", x, !options_.fused_norms));
    return config_.tie ? b.linear_with(x, token_weight)
                       : b.linear("lm_head", x, config_.vocab, false);
  }

  TensorId block(std::int64_t index, TensorId x) {
    ModelBuilder& b = builder_;
    const auto scope = b.block(fmt::format("layers.{}", index));
    x = b.add_tensors(x, attention(b.rms_norm("input_layernorm", x, !options_.fused_norms)));
    const TensorId y = b.rms_norm("post_attention_layernorm", x, !options_.fused_norms);
    return b.add_tensors(x, config_.experts > 0 ? mixture(y) : feed_forward(y));
  }

  TensorId attention(TensorId x) {
    ModelBuilder& b = builder_;
    auto scope = b.scope("self_attn");
    scope.local(x);
    TensorId q = project("q_proj", x, config_.heads);
    TensorId k = project("k_proj", x, config_.kv_heads);
    TensorId v = project("v_proj", x, config_.kv_heads);
    q = b.rotary(q, cos_, sin_);
    k = b.rotary(k, cos_, sin_);
    passes_.remember(k, v);
    if (!passes_.paged()) {
      k = repeat_heads(b, k, config_.heads);
      v = repeat_heads(b, v, config_.heads);
    }
    // The variables of forward(); the projections before rotation and repetition have been
    // overwritten by now.
    scope.local(q);
    scope.local(k);
    scope.local(v);
    const TensorId y = passes_.paged() ? passes_.attend_paged(q, k, v)
                                       : hf_attention(b, q, k, v,
                                                      {.kind = options_.attention,
                                                       .causal = passes_.causal(),
                                                       .dropout = dropout(),
                                                       .mask = mask_});
    return b.linear("o_proj", merge_heads(b, y), config_.width, config_.output_bias);
  }

  TensorId project(std::string_view module, TensorId x, std::int64_t heads) {
    const TensorId y = builder_.linear(module, x, heads * head_width_, config_.attention_bias);
    return split_heads(builder_, y, heads);
  }

  // down_proj(act_fn(gate_proj(x)) * up_proj(x))
  TensorId feed_forward(TensorId x) {
    ModelBuilder& b = builder_;
    auto scope = b.scope("mlp");
    scope.local(x);
    const TensorId gate =
        activate(b, config_.activation, b.linear("gate_proj", x, config_.ffn, config_.ffn_bias));
    const TensorId up = b.linear("up_proj", x, config_.ffn, config_.ffn_bias);
    return b.linear("down_proj", b.multiply(gate, up), config_.width, config_.ffn_bias);
  }

  TensorId mixture(TensorId x) {
    return mixture_of_experts(builder_, "block_sparse_moe", x,
                              {.experts = config_.experts,
                               .per_token = config_.experts_per_token,
                               .ffn = config_.ffn,
                               .activation = config_.activation,
                               .capacity_factor = config_.capacity_factor});
  }

  [[nodiscard]] double dropout() const {
    return options_.dropout.value_or(config_.attention_dropout);
  }

  const LlamaConfig& config_;
  const ModelOptions& options_;
  std::int64_t sequence_;
  std::int64_t head_width_;
  ModelBuilder builder_;
  DecoderPasses passes_;
  TensorId cos_;
  TensorId sin_;
  TensorId mask_;
};

// Touvron et al. 2023 (Llama 2) and Grattafiori et al. 2024 (Llama 3), sizes as in the published
// config.json.
constexpr std::int64_t kLlama3Vocabulary = 128256;

LlamaConfig llama_2_7b() {
  return {.layers = 32,
          .width = 4096,
          .heads = 32,
          .kv_heads = 32,
          .ffn = 11008,
          .vocab = 32000,
          .positions = 4096};
}

LlamaConfig llama_2_70b() {
  return {.layers = 80,
          .width = 8192,
          .heads = 64,
          .kv_heads = 8,
          .ffn = 28672,
          .vocab = 32000,
          .positions = 4096};
}

// Jiang et al. 2023.
LlamaConfig mistral_7b() {
  return {.layers = 32,
          .width = 4096,
          .heads = 32,
          .kv_heads = 8,
          .ffn = 14336,
          .vocab = 32000,
          .positions = 32768};
}

// Jiang et al. 2024: Mistral with 8 feed-forward layers of which each token takes 2.
LlamaConfig mixtral_8x7b() {
  LlamaConfig config = mistral_7b();
  config.experts = 8;
  return config;
}

// Qwen team 2024.
LlamaConfig qwen_2_5(std::int64_t layers, std::int64_t width, std::int64_t heads,
                     std::int64_t kv_heads, std::int64_t ffn) {
  return {.layers = layers,
          .width = width,
          .heads = heads,
          .kv_heads = kv_heads,
          .ffn = ffn,
          .vocab = 151936,
          .positions = 32768,
          .attention_bias = true};
}

LlamaConfig qwen_2_5_half_b() {
  LlamaConfig config = qwen_2_5(24, 896, 14, 2, 4864);
  config.tie = true;
  return config;
}

LlamaConfig qwen_2_5_7b() {
  LlamaConfig config = qwen_2_5(28, 3584, 28, 4, 18944);
  config.vocab = 152064;
  return config;
}

LlamaConfig llama_3_8b() {
  return {.layers = 32,
          .width = 4096,
          .heads = 32,
          .kv_heads = 8,
          .ffn = 14336,
          .vocab = kLlama3Vocabulary,
          .positions = 8192};
}

LlamaConfig llama_3_1_405b() {
  return {.layers = 126,
          .width = 16384,
          .heads = 128,
          .kv_heads = 8,
          .ffn = 53248,
          .vocab = kLlama3Vocabulary,
          .positions = 131072};
}

LlamaConfig llama_3_2_1b() {
  return {.layers = 16,
          .width = 2048,
          .heads = 32,
          .kv_heads = 8,
          .ffn = 8192,
          .vocab = kLlama3Vocabulary,
          .positions = 131072,
          .tie = true};
}

}  // namespace
}  // namespace llama_detail

LlamaConfig decode_llama(const Decoder& overrides, LlamaConfig defaults) {
  const Decoder& d = overrides;
  LlamaConfig config = std::move(defaults);
  config.layers = d.optional<std::int64_t>("layers", config.layers, up_to(kMaxLayers));
  config.width = d.optional<std::int64_t>("width", config.width, up_to(kMaxWidth));
  config.heads = d.optional<std::int64_t>("heads", config.heads, up_to(kMaxHeads));
  config.kv_heads = d.optional<std::int64_t>("kv_heads", config.kv_heads, up_to(kMaxHeads));
  if (const auto head_width = d.maybe<std::int64_t>("head_width", up_to(kMaxWidth))) {
    config.head_width = head_width;
  }
  config.ffn = d.optional<std::int64_t>("ffn", config.ffn, up_to(kMaxWidth));
  config.vocab = d.optional<std::int64_t>("vocab", config.vocab, up_to(kMaxVocabulary));
  config.positions = d.optional<std::int64_t>("sequence", config.positions, up_to(kMaxSequence));
  config.activation = d.optional_word("activation", activation_names(), config.activation);
  config.attention_dropout = d.optional<double>("dropout", config.attention_dropout, between(0, 1));
  config.tie = d.optional<bool>("tie", config.tie);
  config.attention_bias = d.optional<bool>("attention_bias", config.attention_bias);
  config.output_bias = d.optional<bool>("output_bias", config.output_bias);
  config.ffn_bias = d.optional<bool>("ffn_bias", config.ffn_bias);
  config.experts = d.optional<std::int64_t>("experts", config.experts,
                                            between(0, static_cast<double>(kMaxExperts)));
  config.experts_per_token =
      d.optional<std::int64_t>("experts_per_token", config.experts_per_token, up_to(kMaxExperts));
  if (const auto factor = d.maybe<double>("capacity_factor", above(0))) {
    config.capacity_factor = factor;
    if (config.experts == 0) d.fail_at("capacity_factor", "there are no experts to limit");
  }
  if (config.experts > 0 && config.experts_per_token > config.experts) {
    d.fail_at("experts_per_token", fmt::format("a token cannot take {} of {} experts",
                                               config.experts_per_token, config.experts));
  }
  if (config.experts > 0 && config.ffn_bias) {
    d.fail_at("ffn_bias", "experts have no biases");
  }
  check_llama_heads(d, {.heads = "heads", .kv_heads = "kv_heads", .head_width = "head_width"},
                    config);
  return config;
}

void check_llama_heads(const Decoder& config, const LlamaKeys& keys, const LlamaConfig& llama) {
  require_divides(config, keys.kv_heads, llama.kv_heads, "key-value heads", llama.heads,
                  fmt::format("{} attention heads", llama.heads));
  if (!llama.head_width) {
    require_divides(config, keys.heads, llama.heads, "heads", llama.width,
                    fmt::format("a width of {}", llama.width));
  }
  const std::int64_t head_width = llama.head_width.value_or(llama.width / llama.heads);
  if (head_width % 2 != 0) {
    config.fail_at(llama.head_width ? keys.head_width : keys.heads,
                   fmt::format("each head would be {} wide; rotary positions turn pairs of "
                               "elements, so it must be even",
                               head_width));
  }
  if (llama.heads * head_width > kMaxWidth) {
    config.fail_at(keys.head_width, fmt::format("{} heads of width {} are wider than {} together",
                                                llama.heads, head_width, kMaxWidth));
  }
}

Graph build_llama(const LlamaConfig& config, const std::string& name, const ModelOptions& options) {
  check_options(options);
  return llama_detail::LlamaBuilder(config, name, options).build();
}

std::vector<ModelPreset> llama_presets() {
  const auto preset = [](std::string name, std::string summary, LlamaConfig config) {
    return make_preset<LlamaConfig>(std::move(name), "language", std::move(summary),
                                    std::move(config), decode_llama, build_llama);
  };
  return {
      preset("llama", "Llama as Hugging Face writes it, with free sizes", {}),
      preset("llama-2-7b", "Llama 2, 6.74 B parameters", llama_detail::llama_2_7b()),
      preset("llama-2-70b", "Llama 2, 69.0 B parameters, grouped queries",
             llama_detail::llama_2_70b()),
      preset("llama-3-8b", "Llama 3, 8.03 B parameters, grouped queries",
             llama_detail::llama_3_8b()),
      preset("llama-3.1-405b", "Llama 3.1, 406 B parameters, grouped queries",
             llama_detail::llama_3_1_405b()),
      preset("llama-3.2-1b", "Llama 3.2, 1.24 B parameters, tied embeddings",
             llama_detail::llama_3_2_1b()),
      preset("mistral-7b", "Mistral 7B, 7.24 B parameters, grouped queries",
             llama_detail::mistral_7b()),
      preset("mixtral-8x7b", "Mixtral, 46.7 B parameters, 2 of 8 experts per token",
             llama_detail::mixtral_8x7b()),
      preset("qwen2.5-0.5b", "Qwen2.5, 494 M parameters, tied embeddings",
             llama_detail::qwen_2_5_half_b()),
      preset("qwen2.5-7b", "Qwen2.5, 7.62 B parameters", llama_detail::qwen_2_5_7b()),
  };
}

}  // namespace tidemark
