// model_type whisper: transformers/models/whisper/modeling_whisper.py.
#include <cstdint>
#include <string>

#include <fmt/format.h>

#include "graph/import/hf_config.hpp"
#include "graph/models/model_limits.hpp"
#include "graph/models/speech/whisper.hpp"

namespace tidemark {

Graph build_hf_whisper(const Decoder& config, const std::string& name,
                       const ModelOptions& options) {
  WhisperConfig whisper;
  whisper.vocab = config.required<std::int64_t>("vocab_size", up_to(kMaxVocabulary));
  whisper.width = config.required<std::int64_t>("d_model", up_to(kMaxWidth));
  const auto layers = [&](std::string_view key) {
    return config.required<std::int64_t>(key, up_to(kMaxLayers));
  };
  whisper.encoder_layers = layers("encoder_layers");
  whisper.decoder_layers = layers("decoder_layers");
  const auto heads = [&](std::string_view key) {
    const auto count = config.required<std::int64_t>(key, up_to(kMaxHeads));
    require_divides(config, key, count, "heads", whisper.width,
                    fmt::format("a width of {}", whisper.width));
    return count;
  };
  whisper.encoder_heads = heads("encoder_attention_heads");
  whisper.decoder_heads = heads("decoder_attention_heads");
  whisper.encoder_ffn = config.required<std::int64_t>("encoder_ffn_dim", up_to(kMaxWidth));
  whisper.decoder_ffn = config.required<std::int64_t>("decoder_ffn_dim", up_to(kMaxWidth));
  whisper.mel_bins = config.optional<std::int64_t>("num_mel_bins", 80, up_to(kMaxWidth));
  whisper.source_positions =
      config.optional<std::int64_t>("max_source_positions", 1500, up_to(kMaxSequence / 2));
  whisper.target_positions =
      config.optional<std::int64_t>("max_target_positions", 448, up_to(kMaxSequence));
  whisper.activation = hf_activation(config, "activation_function", "gelu");
  whisper.dropout = config.optional<double>("dropout", 0, between(0, 1));
  whisper.attention_dropout = config.optional<double>("attention_dropout", 0, between(0, 1));
  whisper.activation_dropout = config.optional<double>("activation_dropout", 0, between(0, 1));
  whisper.tie = config.optional<bool>("tie_word_embeddings", true);
  return build_whisper(whisper, name, options);
}

}  // namespace tidemark
