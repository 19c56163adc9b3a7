// model_type opt: transformers/models/opt/modeling_opt.py.
#include <cstdint>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "graph/import/hf_config.hpp"
#include "graph/models/generation/decoder_passes.hpp"
#include "graph/models/language.hpp"
#include "graph/models/model_limits.hpp"

namespace tidemark {
namespace hf_opt_detail {
namespace {

constexpr std::int64_t kPositionOffset = 2;  // OPTLearnedPositionalEmbedding.offset

struct OptConfig {
  std::int64_t layers = 0;
  std::int64_t width = 0;
  std::int64_t embedding_width = 0;  // opt-350m: projected to the width and back
  std::int64_t heads = 0;
  std::int64_t ffn = 0;
  std::int64_t vocab = 0;
  std::int64_t positions = 0;
  std::string activation;
  double dropout = 0;
  double attention_dropout = 0;
  bool norm_first = true;  // opt-350m normalises after each residual
  bool final_norm = true;
  bool bias = true;
  bool tie = true;
};

class OptBuilder {
 public:
  OptBuilder(OptConfig config, const std::string& name, const ModelOptions& options)
      : config_(std::move(config)),
        options_(options),
        sequence_(sequence_of(options, config_.positions, true)),
        builder_(name, options.dtype),
        passes_(builder_, options, sequence_) {}

  Graph build() {
    ModelBuilder& b = builder_;
    const std::int64_t batch = options_.micro_batch;
    check_transformer_size({.batch = batch,
                            .sequence = sequence_,
                            .heads = config_.heads,
                            .ffn = config_.ffn,
                            .vocab = config_.vocab});
    const TensorId logits = passes_.run([&](TensorId tokens) { return forward(tokens); });
    b.set_output(logits);
    b.set_samples(batch, passes_.tokens());
    add_language_loss(b, logits, options_.loss, true);
    return checked(b.finish());
  }

 private:
  TensorId forward(TensorId tokens) {
    ModelBuilder& b = builder_;
    const std::int64_t batch = options_.micro_batch;
    if (options_.attention == AttentionKind::kMath) {
      mask_ = passes_.mask(b.buffer("causal_mask", {1, 1, sequence_, sequence_}, b.dtype()));
    }
    TensorId table;
    TensorId x =
        b.embedding("embed_tokens", tokens, config_.vocab, config_.embedding_width, &table);
    // Positions are counted along the attention mask of each sample.
    const TensorId ids =
        b.add("zeros", {}, {{"shape", std::vector<std::int64_t>{batch, passes_.length()}}});
    const TensorId positions =
        b.embedding("embed_positions", ids, config_.positions + kPositionOffset, config_.width);
    if (projects()) x = b.linear("project_in", x, config_.width, false);
    x = b.add_tensors(x, positions);
    for (std::int64_t i = 0; i < config_.layers; ++i)
      x = block(i, x);
    if (config_.norm_first && config_.final_norm) x = b.layer_norm("final_layer_norm", x);
    x = passes_.wanted(x);
    if (projects()) x = b.linear("project_out", x, config_.embedding_width, false);
    return config_.tie ? b.linear_with(x, table) : b.linear("lm_head", x, config_.vocab, false);
  }

  [[nodiscard]] bool projects() const { return config_.embedding_width != config_.width; }
  [[nodiscard]] double dropout(double own) const { return options_.dropout.value_or(own); }

  TensorId block(std::int64_t index, TensorId x) {
    ModelBuilder& b = builder_;
    const auto scope = b.block(fmt::format("layers.{}", index));
    const auto residual = [&](std::string_view norm, auto&& inner) {
      TensorId y = config_.norm_first ? b.layer_norm(norm, x) : x;
      y = b.dropout(inner(y), dropout(config_.dropout));
      x = b.add_tensors(x, y);
      if (!config_.norm_first) x = b.layer_norm(norm, x);
    };
    residual("self_attn_layer_norm", [&](TensorId y) { return attention(y); });
    residual("final_layer_norm", [&](TensorId y) {
      y = activate(b, config_.activation, b.linear("fc1", y, config_.ffn, config_.bias));
      return b.linear("fc2", y, config_.width, config_.bias);
    });
    return x;
  }

  TensorId attention(TensorId x) {
    ModelBuilder& b = builder_;
    auto scope = b.scope("self_attn");
    scope.local(x);
    const auto project = [&](std::string_view module) {
      return b.linear(module, x, config_.width, config_.bias);
    };
    const TensorId q = split_heads(b, b.scale(project("q_proj")), config_.heads);
    TensorId k = split_heads(b, project("k_proj"), config_.heads);
    TensorId v = split_heads(b, project("v_proj"), config_.heads);
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
    return b.linear("out_proj", merge_heads(b, y), config_.width, config_.bias);
  }

  const OptConfig config_;
  const ModelOptions& options_;
  std::int64_t sequence_;
  ModelBuilder builder_;
  DecoderPasses passes_;
  TensorId mask_;
};

}  // namespace
}  // namespace hf_opt_detail

Graph build_hf_opt(const Decoder& config, const std::string& name, const ModelOptions& options) {
  constexpr double kDefaultDropout = 0.1;  // OPTConfig
  hf_opt_detail::OptConfig opt;
  opt.vocab = config.required<std::int64_t>("vocab_size", up_to(kMaxVocabulary));
  opt.width = config.required<std::int64_t>("hidden_size", up_to(kMaxWidth));
  opt.ffn = config.required<std::int64_t>("ffn_dim", up_to(kMaxWidth));
  opt.layers = config.required<std::int64_t>("num_hidden_layers", up_to(kMaxLayers));
  opt.heads = config.required<std::int64_t>("num_attention_heads", up_to(kMaxHeads));
  opt.positions =
      config.optional<std::int64_t>("max_position_embeddings", 2048, up_to(kMaxSequence));
  opt.embedding_width =
      config.optional<std::int64_t>("word_embed_proj_dim", opt.width, up_to(kMaxWidth));
  opt.activation = hf_activation(config, "activation_function", "relu");
  opt.dropout = config.optional<double>("dropout", kDefaultDropout, between(0, 1));
  opt.attention_dropout = config.optional<double>("attention_dropout", 0, between(0, 1));
  opt.norm_first = config.optional<bool>("do_layer_norm_before", true);
  opt.final_norm = !config.optional<bool>("_remove_final_layer_norm", false);
  opt.bias = config.optional<bool>("enable_bias", true);
  opt.tie = config.optional<bool>("tie_word_embeddings", true);
  require_divides(config, "num_attention_heads", opt.heads, "heads", opt.width,
                  fmt::format("a width of {}", opt.width));
  check_options(options);
  return hf_opt_detail::OptBuilder(std::move(opt), name, options).build();
}

}  // namespace tidemark
