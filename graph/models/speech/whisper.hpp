// Whisper (Radford et al. 2022): an encoder of spectrograms and a decoder of text, as Hugging
// Face's WhisperForConditionalGeneration.
#pragma once

#include <cstdint>
#include <string>

#include "graph/core/decoder.hpp"
#include "graph/ir/graph.hpp"
#include "graph/models/model_options.hpp"

namespace tidemark {

struct WhisperConfig {
  std::int64_t width = 384;
  std::int64_t encoder_layers = 4;
  std::int64_t decoder_layers = 4;
  std::int64_t encoder_heads = 6;
  std::int64_t decoder_heads = 6;
  std::int64_t encoder_ffn = 1536;
  std::int64_t decoder_ffn = 1536;
  std::int64_t vocab = 51865;
  std::int64_t mel_bins = 80;
  std::int64_t source_positions = 1500;  // half as many as frames of the spectrogram
  std::int64_t target_positions = 448;   // longest text
  std::string activation = "gelu";
  double dropout = 0;
  double attention_dropout = 0;
  double activation_dropout = 0;
  bool tie = true;
};

[[nodiscard]] WhisperConfig decode_whisper(const Decoder& overrides, WhisperConfig defaults);
// training.sequence is the length of the text, at most target_positions.
[[nodiscard]] Graph build_whisper(const WhisperConfig& config, const std::string& name,
                                  const ModelOptions& options);

}  // namespace tidemark
