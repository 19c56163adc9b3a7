#include "graph/models/bert.hpp"

#include <array>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "graph/models/language.hpp"
#include "graph/models/model_limits.hpp"
#include "graph/models/preset.hpp"

namespace tidemark {

namespace bert_detail {
namespace {

class BertBuilder {
 public:
  BertBuilder(const BertConfig& config, const std::string& name, const ModelOptions& options)
      : config_(config),
        options_(options),
        sequence_(sequence_of(options, config.positions, true)),
        builder_(name, options.dtype) {}

  Graph build() {
    ModelBuilder& b = builder_;
    check_transformer_size({.batch = options_.micro_batch,
                            .sequence = sequence_,
                            .heads = config_.heads,
                            .ffn = config_.ffn,
                            .vocab = config_.vocab});
    const TensorId tokens = b.input("tokens", {options_.micro_batch, sequence_}, DType::kInt64);
    if (options_.attention == AttentionKind::kMath) {
      mask_ = b.buffer("attention_mask", {options_.micro_batch, 1, 1, sequence_}, b.dtype());
    }
    TensorId x = embeddings(tokens);
    for (std::int64_t i = 0; i < config_.layers; ++i)
      x = block(i, x);
    const TensorId logits = head(x);
    b.set_output(logits);
    b.set_samples(options_.micro_batch, options_.micro_batch * sequence_);
    add_language_loss(b, logits, options_.loss, false);
    return checked(b.finish());
  }

 private:
  [[nodiscard]] double hidden_dropout() const {
    return options_.dropout.value_or(config_.hidden_dropout);
  }

  // LayerNorm(word + token_type + position), dropout.
  TensorId embeddings(TensorId tokens) {
    ModelBuilder& b = builder_;
    const auto scope = b.scope("embeddings");
    // Buffers of BertEmbeddings, cut to the sequence.
    const auto indices = [&](std::string_view name) {
      const TensorId all = b.buffer(name, {1, config_.positions}, DType::kInt64);
      return b.add("narrow", {all}, {{"axis", std::int64_t{1}}, {"length", sequence_}});
    };
    TensorId x =
        b.embedding("word_embeddings", tokens, config_.vocab, config_.width, &token_weight_);
    const TensorId types = b.expand(indices("token_type_ids"), {options_.micro_batch, sequence_});
    x = b.add_tensors(
        x, b.embedding("token_type_embeddings", types, config_.token_types, config_.width));
    x = b.add_tensors(x,
                      b.embedding("position_embeddings", indices("position_ids"), config_.positions,
                                  config_.width),
                      true);
    return b.dropout(b.layer_norm("LayerNorm", x), hidden_dropout());
  }

  // Normalised after each residual.
  TensorId block(std::int64_t index, TensorId x) {
    ModelBuilder& b = builder_;
    const auto scope = b.block(fmt::format("encoder.layer.{}", index));
    x = output("attention.output", attention(x), x);
    const TensorId y =
        activate(b, config_.activation, b.linear("intermediate.dense", x, config_.ffn));
    return output("output", y, x);
  }

  // LayerNorm(dropout(dense(y)) + residual)
  TensorId output(std::string_view module, TensorId y, TensorId residual) {
    ModelBuilder& b = builder_;
    const auto scope = b.scope(module);
    y = b.dropout(b.linear("dense", y, config_.width), hidden_dropout());
    return b.layer_norm("LayerNorm", b.add_tensors(y, residual));
  }

  TensorId attention(TensorId x) {
    ModelBuilder& b = builder_;
    auto scope = b.scope("attention.self");
    scope.local(x);
    std::array<TensorId, 3> heads;
    constexpr std::array<std::string_view, 3> kModules = {"query", "key", "value"};
    for (std::size_t i = 0; i < heads.size(); ++i) {
      heads[i] = split_heads(b, b.linear(kModules[i], x, config_.width), config_.heads);
      scope.local(heads[i]);
    }
    const TensorId y =
        hf_attention(b, heads[0], heads[1], heads[2],
                     {.kind = options_.attention,
                      .dropout = options_.dropout.value_or(config_.attention_dropout),
                      .mask = mask_,
                      .softmax_in_fp32 = false});
    return merge_heads(b, y);
  }

  TensorId head(TensorId x) {
    ModelBuilder& b = builder_;
    switch (config_.head) {
      case BertHead::kMaskedLanguage: {
        const auto scope = b.scope("cls.predictions");
        TensorId y = activate(b, config_.activation, b.linear("transform.dense", x, config_.width));
        y = b.layer_norm("transform.LayerNorm", y);
        const TensorId bias = b.parameter("bias", {config_.vocab});
        const TensorId weight = config_.tie
                                    ? token_weight_
                                    : b.parameter("decoder.weight", {config_.vocab, config_.width});
        return b.linear_with(y, weight, bias);
      }
      case BertHead::kSequenceClassifier:
        return b.linear("classifier", b.dropout(pooled(x), hidden_dropout()), config_.labels);
      case BertHead::kTokenClassifier:
        return b.linear("classifier", b.dropout(x, hidden_dropout()), config_.labels);
      case BertHead::kQuestionAnswering:
        return b.linear("qa_outputs", x, 2);
      case BertHead::kPooled:
        return pooled(x);
    }
    return x;
  }

  // tanh(dense(x[:, 0]))
  TensorId pooled(TensorId x) {
    ModelBuilder& b = builder_;
    const auto scope = b.scope("pooler");
    const TensorId first = b.add(
        "narrow", {x},
        {{"axis", std::int64_t{1}}, {"length", std::int64_t{1}}, {"drop_axis", std::int64_t{1}}});
    return b.activation("tanh", b.linear("dense", first, config_.width));
  }

  const BertConfig& config_;
  const ModelOptions& options_;
  std::int64_t sequence_;
  ModelBuilder builder_;
  TensorId token_weight_;
  TensorId mask_;
};

}  // namespace
}  // namespace bert_detail

BertConfig decode_bert(const Decoder& overrides, BertConfig defaults) {
  const Decoder& d = overrides;
  BertConfig config = std::move(defaults);
  config.layers = d.optional<std::int64_t>("layers", config.layers, up_to(kMaxLayers));
  config.width = d.optional<std::int64_t>("width", config.width, up_to(kMaxWidth));
  config.heads = d.optional<std::int64_t>("heads", config.heads, up_to(kMaxHeads));
  config.ffn = d.optional<std::int64_t>("ffn", config.ffn, up_to(kMaxWidth));
  config.vocab = d.optional<std::int64_t>("vocab", config.vocab, up_to(kMaxVocabulary));
  config.positions = d.optional<std::int64_t>("sequence", config.positions, up_to(kMaxSequence));
  config.activation = d.optional_word("activation", activation_names(), config.activation);
  if (const auto dropout = d.maybe<double>("dropout", between(0, 1))) {
    config.hidden_dropout = *dropout;
    config.attention_dropout = *dropout;
  }
  config.tie = d.optional<bool>("tie", config.tie);
  require_divides(d, "heads", config.heads, "heads", config.width,
                  fmt::format("a width of {}", config.width));
  return config;
}

Graph build_bert(const BertConfig& config, const std::string& name, const ModelOptions& options) {
  check_options(options);
  return bert_detail::BertBuilder(config, name, options).build();
}

std::vector<ModelPreset> bert_presets() {
  const auto preset = [](std::string name, std::string summary, BertConfig config) {
    return make_preset<BertConfig>(std::move(name), "language", std::move(summary),
                                   std::move(config), decode_bert, build_bert);
  };
  return {
      preset("bert-base",
             "BERT base with its masked language head, 110 M parameters (Hugging Face)", {}),
      preset("bert-large",
             "BERT large with its masked language head, 335 M parameters (Hugging Face)",
             {.layers = 24, .width = 1024, .heads = 16, .ffn = 4096}),
  };
}

}  // namespace tidemark
