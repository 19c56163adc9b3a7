// model_type vit: ViTForImageClassification of transformers/models/vit/modeling_vit.py.
#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "graph/import/hf_config.hpp"
#include "graph/models/model_limits.hpp"
#include "graph/models/vit.hpp"

namespace tidemark {

Graph build_hf_vit(const Decoder& config, const std::string& name, const ModelOptions& options) {
  static constexpr std::array<std::string_view, 1> kClasses = {"ViTForImageClassification"};
  static_cast<void>(hf_class(config, kClasses));
  VitConfig vit{.code = VitCode::kHuggingFace};
  vit.width = config.required<std::int64_t>("hidden_size", up_to(kMaxWidth));
  vit.ffn = config.required<std::int64_t>("intermediate_size", up_to(kMaxWidth));
  vit.layers = config.required<std::int64_t>("num_hidden_layers", up_to(kMaxLayers));
  vit.heads = config.required<std::int64_t>("num_attention_heads", up_to(kMaxHeads));
  vit.image = config.optional<std::int64_t>("image_size", 224, up_to(kMaxImage));
  vit.patch = config.optional<std::int64_t>("patch_size", 16, up_to(kMaxImage));
  vit.channels = config.optional<std::int64_t>("num_channels", 3, up_to(kMaxWidth));
  vit.activation = hf_activation(config, "hidden_act", "gelu");
  vit.dropout = config.optional<double>("hidden_dropout_prob", 0, between(0, 1));
  vit.attention_dropout = config.optional<double>("attention_probs_dropout_prob", 0, between(0, 1));
  vit.attention_bias = config.optional<bool>("qkv_bias", true);
  vit.classes = hf_labels(config);
  check_vit(config, {.heads = "num_attention_heads", .patch = "patch_size"}, vit);
  return build_vit(vit, name, options);
}

}  // namespace tidemark
