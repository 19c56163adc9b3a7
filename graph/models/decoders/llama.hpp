// Llama and its relatives: RMSNorm, rotary positions, grouped-query attention and a gated
// feed-forward layer or a mixture of them (Mixtral), as Hugging Face's eager modules compute them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "graph/core/decoder.hpp"
#include "graph/ir/graph.hpp"
#include "graph/models/model_options.hpp"

namespace tidemark {

struct LlamaConfig {
  std::int64_t layers = 4;
  std::int64_t width = 256;
  std::int64_t heads = 8;
  std::int64_t kv_heads = 2;
  std::optional<std::int64_t> head_width;  // width / heads unless given
  std::int64_t ffn = 688;
  std::int64_t vocab = 4096;
  std::int64_t positions = 128;  // the longest sequence trained on; rotary positions have no table
  std::string activation = "silu";
  double attention_dropout = 0;
  bool tie = false;
  bool attention_bias = false;  // biases of the query, key and value projections
  bool output_bias = false;     // bias of the attention's output projection
  bool ffn_bias = false;
  std::int64_t experts = 0;  // feed-forward layers that a router chooses from; 0: no router
  std::int64_t experts_per_token = 2;
  std::optional<double> capacity_factor;  // places per expert, see experts.hpp
};

[[nodiscard]] LlamaConfig decode_llama(const Decoder& overrides, LlamaConfig defaults);
// Names the keys at which an error is thrown when heads, key-value heads and widths do not fit
// together.
struct LlamaKeys {
  std::string_view heads;
  std::string_view kv_heads;
  std::string_view head_width;
};
void check_llama_heads(const Decoder& config, const LlamaKeys& keys, const LlamaConfig& llama);
[[nodiscard]] Graph build_llama(const LlamaConfig& config, const std::string& name,
                                const ModelOptions& options);

}  // namespace tidemark
