// Vision transformers (Dosovitskiy et al. 2021): patches by a strided convolution, a class token,
// learned positions, pre-norm blocks, a linear classifier on the class token.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "graph/core/decoder.hpp"
#include "graph/ir/graph.hpp"
#include "graph/models/model_options.hpp"

namespace tidemark {

// The author of the module's code: sizes are the same, what stays in memory is not.
enum class VitCode {
  kTorchvision,  // torch.nn.MultiheadAttention: one packed projection
  kHuggingFace,  // separate queries, keys and values; softmax in fp32
};

struct VitConfig {
  std::int64_t layers = 4;
  std::int64_t width = 192;
  std::int64_t heads = 4;
  std::int64_t ffn = 768;
  std::int64_t image = 96;  // pixels per side; fixes the table of positions
  std::int64_t patch = 16;
  std::int64_t channels = 3;
  std::int64_t classes = 100;
  std::string activation = "gelu";
  double dropout = 0;
  double attention_dropout = 0;
  bool attention_bias = true;  // biases of queries, keys and values; kHuggingFace only
  VitCode code = VitCode::kTorchvision;
};

[[nodiscard]] VitConfig decode_vit(const Decoder& overrides, VitConfig defaults);
// Throws at the named keys unless heads divide the width and patches the image.
struct VitKeys {
  std::string_view heads;
  std::string_view patch;
};
void check_vit(const Decoder& config, const VitKeys& keys, const VitConfig& vit);
[[nodiscard]] Graph build_vit(const VitConfig& config, const std::string& name,
                              const ModelOptions& options);

}  // namespace tidemark
