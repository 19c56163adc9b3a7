// model_type gpt_neox (GPT-NeoX, Pythia): transformers/models/gpt_neox/modeling_gpt_neox.py. Rotary
// positions turn only the first part of each head; attention and feed-forward layer read the same
// input where the residual is parallel.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "graph/import/hf_config.hpp"
#include "graph/models/generation/decoder_passes.hpp"
#include "graph/models/language.hpp"
#include "graph/models/model_limits.hpp"

namespace tidemark {
namespace hf_gpt_neox_detail {
namespace {

struct NeoxConfig {
  std::int64_t layers = 0;
  std::int64_t width = 0;
  std::int64_t heads = 0;
  std::int64_t ffn = 0;
  std::int64_t vocab = 0;
  std::int64_t positions = 0;
  std::int64_t rotary_width = 0;  // width per head, even
  std::string activation;
  double hidden_dropout = 0;
  double attention_dropout = 0;
  bool parallel_residual = true;
  bool attention_bias = true;
  bool tie = false;
};

class NeoxBuilder {
 public:
  NeoxBuilder(NeoxConfig config, const std::string& name, const ModelOptions& options)
      : config_(std::move(config)),
        options_(options),
        sequence_(sequence_of(options, config_.positions, false)),
        builder_(name, options.dtype),
        passes_(builder_, options, sequence_) {}

  Graph build() {
    ModelBuilder& b = builder_;
    check_transformer_size({.batch = options_.micro_batch,
                            .sequence = sequence_,
                            .heads = config_.heads,
                            .ffn = config_.ffn,
                            .vocab = config_.vocab});
    const TensorId logits = passes_.run([&](TensorId tokens) { return forward(tokens); });
    b.set_output(logits);
    b.set_samples(options_.micro_batch, passes_.tokens());
    add_language_loss(b, logits, options_.loss, true);
    return checked(b.finish());
  }

 private:
  TensorId forward(TensorId tokens) {
    ModelBuilder& b = builder_;
    cos_ = b.buffer("rotary_emb.cos", {sequence_, config_.rotary_width}, b.dtype());
    sin_ = b.buffer("rotary_emb.sin", {sequence_, config_.rotary_width}, b.dtype());
    if (options_.attention == AttentionKind::kMath) {
      mask_ = passes_.mask(b.buffer("causal_mask", {1, 1, sequence_, sequence_}, b.dtype()));
    }
    cos_ = passes_.positions(cos_);
    sin_ = passes_.positions(sin_);
    TensorId table;
    TensorId x = b.embedding("embed_in", tokens, config_.vocab, config_.width, &table);
    x = b.dropout(x, dropout(config_.hidden_dropout));
    for (std::int64_t i = 0; i < config_.layers; ++i)
      x = block(i, x);
    x = passes_.wanted(b.layer_norm("final_layer_norm", x));
    return config_.tie ? b.linear_with(x, table) : b.linear("embed_out", x, config_.vocab, false);
  }

  [[nodiscard]] double dropout(double own) const { return options_.dropout.value_or(own); }

  // parallel: x + attn(ln1(x)) + mlp(ln2(x)); else x = x + attn(ln1(x)); x = x + mlp(ln2(x))
  TensorId block(std::int64_t index, TensorId x) {
    ModelBuilder& b = builder_;
    auto scope = b.block(fmt::format("layers.{}", index));
    scope.local(x);
    TensorId attended = attention(b.layer_norm("input_layernorm", x));
    attended = b.dropout(attended, dropout(config_.hidden_dropout));
    if (!config_.parallel_residual) {
      attended = b.add_tensors(attended, x);
      const TensorId y = feed_forward(b.layer_norm("post_attention_layernorm", attended));
      return b.add_tensors(y, attended);
    }
    const TensorId y = feed_forward(b.layer_norm("post_attention_layernorm", x));
    return b.add_tensors(b.add_tensors(y, attended), x);
  }

  TensorId attention(TensorId x) {
    ModelBuilder& b = builder_;
    auto scope = b.scope("attention");
    scope.local(x);
    const std::int64_t batch = options_.micro_batch;
    const std::int64_t head_width = config_.width / config_.heads;
    // view(batch, length, heads, 3 * head_width).transpose(1, 2).chunk(3, dim=-1)
    TensorId fused = b.linear("query_key_value", x, 3 * config_.width, config_.attention_bias);
    fused =
        b.transpose(b.view(fused, {batch, passes_.length(), config_.heads, 3 * head_width}), 1, 2);
    const std::vector<TensorId> parts = b.split(fused, head_width, 3);
    const TensorId q = rotate(parts[0]);
    TensorId k = rotate(parts[1]);
    TensorId v = parts[2];
    passes_.remember(k, v);
    for (TensorId variable : {q, k, v})
      scope.local(variable);
    const TensorId y = passes_.paged()
                           ? passes_.attend_paged(q, k, v)
                           : hf_attention(b, q, k, v,
                                          {.kind = options_.attention,
                                           .causal = passes_.causal(),
                                           .dropout = dropout(config_.attention_dropout),
                                           .mask = mask_});
    return b.linear("dense", merge_heads(b, y), config_.width, config_.attention_bias);
  }

  // Returns cat(rotated, passed): the rotated part and the other one.
  TensorId rotate(TensorId x) {
    ModelBuilder& b = builder_;
    const std::int64_t width = b.shape(x)[-1];
    if (config_.rotary_width == width) return b.rotary(x, cos_, sin_);
    const std::vector<std::int64_t> sizes{config_.rotary_width, width - config_.rotary_width};
    const std::vector<TensorId> parts =
        b.add_many("split", {x}, {{"sizes", sizes}, {"axis", std::int64_t{3}}});
    return b.cat({b.rotary(parts[0], cos_, sin_), parts[1]}, 3);
  }

  TensorId feed_forward(TensorId x) {
    ModelBuilder& b = builder_;
    {
      auto scope = b.scope("mlp");
      scope.local(x);
      x = activate(b, config_.activation, b.linear("dense_h_to_4h", x, config_.ffn));
      x = b.linear("dense_4h_to_h", x, config_.width);
    }
    return b.dropout(x, dropout(config_.hidden_dropout));
  }

  const NeoxConfig config_;
  const ModelOptions& options_;
  std::int64_t sequence_;
  ModelBuilder builder_;
  DecoderPasses passes_;
  TensorId cos_;
  TensorId sin_;
  TensorId mask_;
};

}  // namespace
}  // namespace hf_gpt_neox_detail

Graph build_hf_gpt_neox(const Decoder& config, const std::string& name,
                        const ModelOptions& options) {
  constexpr double kDefaultRotaryShare = 0.25;  // GPTNeoXConfig
  hf_gpt_neox_detail::NeoxConfig neox;
  neox.vocab = config.required<std::int64_t>("vocab_size", up_to(kMaxVocabulary));
  neox.width = config.required<std::int64_t>("hidden_size", up_to(kMaxWidth));
  neox.ffn = config.required<std::int64_t>("intermediate_size", up_to(kMaxWidth));
  neox.layers = config.required<std::int64_t>("num_hidden_layers", up_to(kMaxLayers));
  neox.heads = config.required<std::int64_t>("num_attention_heads", up_to(kMaxHeads));
  neox.positions =
      config.optional<std::int64_t>("max_position_embeddings", 2048, up_to(kMaxSequence));
  neox.activation = hf_activation(config, "hidden_act", "gelu");
  neox.hidden_dropout = config.optional<double>("hidden_dropout", 0, between(0, 1));
  neox.attention_dropout = config.optional<double>("attention_dropout", 0, between(0, 1));
  neox.parallel_residual = config.optional<bool>("use_parallel_residual", true);
  neox.attention_bias = config.optional<bool>("attention_bias", true);
  neox.tie = config.optional<bool>("tie_word_embeddings", false);
  require_divides(config, "num_attention_heads", neox.heads, "heads", neox.width,
                  fmt::format("a width of {}", neox.width));
  const double share = config.optional<double>("rotary_pct", kDefaultRotaryShare, between(0, 1));
  const std::int64_t head_width = neox.width / neox.heads;
  neox.rotary_width = static_cast<std::int64_t>(static_cast<double>(head_width) * share);
  if (neox.rotary_width < 2 || neox.rotary_width % 2 != 0) {
    config.fail_at("rotary_pct",
                   fmt::format("rotary positions would turn {} of the {} elements of a head; they "
                               "turn pairs, so that must be even and at least 2",
                               neox.rotary_width, head_width));
  }
  check_options(options);
  return hf_gpt_neox_detail::NeoxBuilder(std::move(neox), name, options).build();
}

}  // namespace tidemark
