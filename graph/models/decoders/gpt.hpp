// GPT-2: learned positions, pre-norm blocks, one fused projection for queries, keys and values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "graph/core/decoder.hpp"
#include "graph/ir/graph.hpp"
#include "graph/models/model_options.hpp"

namespace tidemark {

// The author of the module's code: sizes are the same, what stays in memory is not.
enum class GptCode {
  kNanoGpt,      // math attention masks with an fp32 buffer [1, 1, T, T] per block
  kHuggingFace,  // a bool buffer of that shape whatever the attention; the loss is taken in fp32
};

struct GptConfig {
  std::int64_t layers = 4;
  std::int64_t width = 256;
  std::int64_t heads = 8;
  std::int64_t vocab = 4096;
  std::int64_t positions = 128;     // rows of the position table
  std::optional<std::int64_t> ffn;  // 4 * width unless given
  std::string activation = "gelu";  // gelu | gelu_tanh | new_gelu | relu | silu
  double embedding_dropout = 0;
  double attention_dropout = 0;
  double residual_dropout = 0;
  bool tie = true;  // lm_head uses the token embedding's weight
  GptCode code = GptCode::kNanoGpt;
};

// Reads overrides of `defaults`, and checks that the whole fits together.
[[nodiscard]] GptConfig decode_gpt(const Decoder& overrides, GptConfig defaults);
// Throws at `key` when the heads do not divide the width.
void check_gpt_heads(const Decoder& config, std::string_view key, const GptConfig& gpt);
[[nodiscard]] Graph build_gpt(const GptConfig& config, const std::string& name,
                              const ModelOptions& options);

}  // namespace tidemark
