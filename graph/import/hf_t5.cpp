// model_type t5: T5ForConditionalGeneration of transformers/models/t5/modeling_t5.py.
#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "graph/import/hf_config.hpp"
#include "graph/models/model_limits.hpp"
#include "graph/models/t5.hpp"

namespace tidemark {
namespace hf_t5_detail {
namespace {

// feed_forward_proj: an activation, or "gated-" and one. "gated-gelu" means gelu_new there.
void read_feed_forward(const Decoder& config, T5Config& t5) {
  static constexpr std::array<std::string_view, 6> kWords = {
      "relu", "gelu", "gated-gelu", "gated-silu", "gated-relu", "gelu_new"};
  const std::string word = config.optional_word("feed_forward_proj", kWords, "relu");
  t5.gated = word.starts_with("gated-");
  t5.activation = t5.gated ? word.substr(word.find('-') + 1) : word;
  if (word == "gated-gelu" || word == "gelu_new") t5.activation = "new_gelu";
}

}  // namespace
}  // namespace hf_t5_detail

Graph build_hf_t5(const Decoder& config, const std::string& name, const ModelOptions& options) {
  static constexpr std::array<std::string_view, 2> kClasses = {"T5ForConditionalGeneration",
                                                               "T5WithLMHeadModel"};
  static_cast<void>(hf_class(config, kClasses));
  T5Config t5;
  t5.vocab = config.required<std::int64_t>("vocab_size", up_to(kMaxVocabulary));
  t5.width = config.required<std::int64_t>("d_model", up_to(kMaxWidth));
  t5.head_width = config.required<std::int64_t>("d_kv", up_to(kMaxWidth));
  t5.ffn = config.required<std::int64_t>("d_ff", up_to(kMaxWidth));
  t5.layers = config.required<std::int64_t>("num_layers", up_to(kMaxLayers));
  t5.decoder_layers =
      config.optional<std::int64_t>("num_decoder_layers", t5.layers, up_to(kMaxLayers));
  t5.heads = config.required<std::int64_t>("num_heads", up_to(kMaxHeads));
  t5.buckets =
      config.optional<std::int64_t>("relative_attention_num_buckets", 32, up_to(kMaxSequence));
  // Relative positions have no limit: n_positions only bounds the default sequence.
  t5.positions =
      config.optional<std::int64_t>("n_positions", kDefaultSequence, up_to(kMaxSequence));
  t5.dropout = config.optional<double>("dropout_rate", 0.1, between(0, 1));
  t5.tie = config.optional<bool>("tie_word_embeddings", true);
  hf_t5_detail::read_feed_forward(config, t5);
  if (t5.heads * t5.head_width > kMaxWidth) {
    config.fail_at("d_kv", fmt::format("{} heads of width {} are wider than {} together", t5.heads,
                                       t5.head_width, kMaxWidth));
  }
  return build_t5(t5, name, options);
}

}  // namespace tidemark
