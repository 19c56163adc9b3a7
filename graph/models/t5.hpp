// T5 (Raffel et al. 2020) as Hugging Face's eager modules compute it: modeling_t5.py. Encoder and
// decoder share the token embedding; relative positions are a bias on the scores that the first
// layer of each stack makes and all its layers add. The modules have no fused attention.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "graph/core/decoder.hpp"
#include "graph/ir/graph.hpp"
#include "graph/models/model_options.hpp"

namespace tidemark {

struct T5Config {
  std::int64_t layers = 3;  // layers of the encoder
  std::int64_t decoder_layers = 3;
  std::int64_t width = 256;
  std::int64_t heads = 8;
  std::int64_t head_width = 32;  // heads * head_width need not be the width
  std::int64_t ffn = 1024;
  std::int64_t vocab = 4096;
  std::int64_t positions = 512;  // length of the training sequence unless given
  std::int64_t buckets = 32;     // buckets of relative positions
  std::string activation = "relu";
  bool gated = false;  // T5 1.1: wo(act(wi_0(x)) * wi_1(x))
  double dropout = 0.1;
  bool tie = true;  // T5 1.1 has a head of its own
};

[[nodiscard]] T5Config decode_t5(const Decoder& overrides, T5Config defaults);
[[nodiscard]] Graph build_t5(const T5Config& config, const std::string& name,
                             const ModelOptions& options);

}  // namespace tidemark
