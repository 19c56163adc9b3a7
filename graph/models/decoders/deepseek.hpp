// DeepSeek V2 and V3: latent attention and experts beside shared ones, as Hugging Face's eager
// modules compute them.
#pragma once

#include <cstdint>
#include <string>

#include "graph/core/decoder.hpp"
#include "graph/ir/graph.hpp"
#include "graph/models/model_options.hpp"

namespace tidemark {

// DeepSeek-AI 2024, section 2.1: keys and values are made of a latent vector of `kv_rank` elements;
// positions turn `rotary_width` elements of each query and one more key that all heads share.
struct DeepseekConfig {
  std::int64_t layers = 27;
  std::int64_t width = 2048;
  std::int64_t heads = 16;
  std::int64_t query_rank = 0;  // queries are made of a latent vector, too; 0: they are not
  std::int64_t kv_rank = 512;
  std::int64_t plain_width = 128;  // elements of a head that do not turn
  std::int64_t rotary_width = 64;
  std::int64_t value_width = 128;
  std::int64_t ffn = 10944;  // width of the first `dense_layers` layers
  std::int64_t dense_layers = 1;
  std::int64_t expert_ffn = 1408;
  std::int64_t experts = 64;
  std::int64_t experts_per_token = 6;
  std::int64_t shared_experts = 2;  // one feed-forward layer of so many times the width
  bool corrects_scores = false;     // V3: a bias for each expert that training does not learn
  std::int64_t vocab = 102400;
  std::int64_t positions = 163840;
  bool tie = false;
};

[[nodiscard]] DeepseekConfig decode_deepseek(const Decoder& overrides, DeepseekConfig defaults);
[[nodiscard]] Graph build_deepseek(const DeepseekConfig& config, const std::string& name,
                                   const ModelOptions& options);

}  // namespace tidemark
