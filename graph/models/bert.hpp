// BERT (Devlin et al. 2019) as Hugging Face's eager modules compute it: modeling_bert.py.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "graph/core/decoder.hpp"
#include "graph/ir/graph.hpp"
#include "graph/models/model_options.hpp"

namespace tidemark {

enum class BertHead {
  kMaskedLanguage,      // BertForMaskedLM: no pooler, decoder tied to the token embedding
  kSequenceClassifier,  // pooler, dropout, linear layer
  kTokenClassifier,     // dropout, linear layer per token
  kQuestionAnswering,   // start and end of the span, as two classes per token
  kPooled,              // BertModel: what the pooler returns
};

struct BertConfig {
  std::int64_t layers = 12;
  std::int64_t width = 768;
  std::int64_t heads = 12;
  std::int64_t ffn = 3072;
  std::int64_t vocab = 30522;
  std::int64_t positions = 512;
  std::int64_t token_types = 2;
  std::int64_t labels = 2;  // classes of a classifier
  std::string activation = "gelu";
  double hidden_dropout = 0.1;
  double attention_dropout = 0.1;
  bool tie = true;
  BertHead head = BertHead::kMaskedLanguage;
};

[[nodiscard]] BertConfig decode_bert(const Decoder& overrides, BertConfig defaults);
[[nodiscard]] Graph build_bert(const BertConfig& config, const std::string& name,
                               const ModelOptions& options);

}  // namespace tidemark
