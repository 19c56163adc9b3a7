// model_type bert: transformers/models/bert/modeling_bert.py; `architectures` says which head.
#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "graph/import/hf_config.hpp"
#include "graph/models/bert.hpp"
#include "graph/models/model_limits.hpp"

namespace tidemark {
namespace hf_bert_detail {
namespace {

constexpr std::array<std::string_view, 5> kClasses = {
    "BertForMaskedLM", "BertForSequenceClassification", "BertForTokenClassification",
    "BertForQuestionAnswering", "BertModel"};
constexpr std::array<BertHead, 5> kHeads = {
    BertHead::kMaskedLanguage, BertHead::kSequenceClassifier, BertHead::kTokenClassifier,
    BertHead::kQuestionAnswering, BertHead::kPooled};

}  // namespace
}  // namespace hf_bert_detail

Graph build_hf_bert(const Decoder& config, const std::string& name, const ModelOptions& options) {
  refuse_cross_attention(config);
  static constexpr std::array<std::string_view, 1> kPositions = {"absolute"};
  static_cast<void>(config.optional_word("position_embedding_type", kPositions, kPositions[0]));
  BertConfig bert;  // BertConfig's defaults are those of bert-base-uncased
  const std::string chosen = hf_class(config, hf_bert_detail::kClasses);
  for (std::size_t i = 0; i < hf_bert_detail::kClasses.size(); ++i) {
    if (hf_bert_detail::kClasses[i] == chosen) bert.head = hf_bert_detail::kHeads[i];
  }
  bert.vocab = config.optional<std::int64_t>("vocab_size", bert.vocab, up_to(kMaxVocabulary));
  bert.width = config.required<std::int64_t>("hidden_size", up_to(kMaxWidth));
  bert.ffn = config.required<std::int64_t>("intermediate_size", up_to(kMaxWidth));
  bert.layers = config.required<std::int64_t>("num_hidden_layers", up_to(kMaxLayers));
  bert.heads = config.required<std::int64_t>("num_attention_heads", up_to(kMaxHeads));
  bert.positions =
      config.optional<std::int64_t>("max_position_embeddings", bert.positions, up_to(kMaxSequence));
  bert.token_types =
      config.optional<std::int64_t>("type_vocab_size", bert.token_types, up_to(kMaxVocabulary));
  bert.activation = hf_activation(config, "hidden_act", "gelu");
  bert.hidden_dropout =
      config.optional<double>("hidden_dropout_prob", bert.hidden_dropout, between(0, 1));
  bert.attention_dropout = config.optional<double>("attention_probs_dropout_prob",
                                                   bert.attention_dropout, between(0, 1));
  bert.tie = config.optional<bool>("tie_word_embeddings", true);
  bert.labels = hf_labels(config);
  require_divides(config, "num_attention_heads", bert.heads, "heads", bert.width,
                  fmt::format("a width of {}", bert.width));
  return build_bert(bert, name, options);
}

}  // namespace tidemark
