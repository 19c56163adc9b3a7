// ConvNeXt (Liu et al. 2022), module by module as torchvision.models.convnext.
#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "graph/models/image_classifier.hpp"
#include "graph/models/model_limits.hpp"
#include "graph/models/preset.hpp"

namespace tidemark {

namespace convnext_detail {
namespace {

constexpr std::size_t kConvNextStages = 4;
constexpr std::int64_t kFfnExpansion = 4;

struct ConvnextConfig {
  std::vector<std::int64_t> blocks = {3, 3, 9, 3};  // by stage
  std::vector<std::int64_t> widths = {96, 192, 384, 768};
  double stochastic_depth = 0.1;  // probability of the last block; it grows linearly from 0
  std::int64_t classes = 1000;
  std::int64_t image = 224;
};

ConvnextConfig decode_convnext(const Decoder& overrides, ConvnextConfig config) {
  const Decoder& d = overrides;
  const auto four = [&](std::string_view key, std::vector<std::int64_t>& list, Range range) {
    list = d.optional_list<std::int64_t>(key, std::move(list), range);
    if (list.size() != kConvNextStages) {
      d.fail_at(key, fmt::format("expected {} stages, found {}", kConvNextStages, list.size()));
    }
  };
  four("blocks", config.blocks, up_to(kMaxLayers));
  four("widths", config.widths, up_to(kMaxWidth));
  config.stochastic_depth =
      d.optional<double>("stochastic_depth", config.stochastic_depth, between(0, 1));
  config.classes = d.optional<std::int64_t>("classes", config.classes, up_to(kMaxVocabulary));
  config.image = d.optional<std::int64_t>("image", config.image, up_to(kMaxImage));
  return config;
}

class ConvnextBuilder {
 public:
  ConvnextBuilder(const ConvnextConfig& config, const std::string& name,
                  const ModelOptions& options)
      : config_(config), options_(options), builder_(name, options.dtype) {}

  Graph build() {
    ModelBuilder& b = builder_;
    TensorId x = image_input(b, options_, config_.image);
    x = b.conv2d("features.0.0", x, config_.widths[0], {.kernel = 4, .stride = 4});
    x = layer_norm_2d("features.0.1", x);
    for (std::size_t stage = 0; stage < kConvNextStages; ++stage) {
      for (std::int64_t i = 0; i < config_.blocks[stage]; ++i) {
        x = block(fmt::format("features.{}.{}", 2 * stage + 1, i), x);
      }
      if (stage + 1 == kConvNextStages) break;
      const std::string down = fmt::format("features.{}", 2 * stage + 2);
      x = layer_norm_2d(down + ".0", x);
      x = b.conv2d(down + ".1", x, config_.widths[stage + 1], {.kernel = 2, .stride = 2});
    }
    x = b.global_avg_pool2d(x);
    {
      auto classifier = b.scope("classifier");
      classifier.local(x);
      x = b.flatten(layer_norm_2d("0", x), 1);
      x = b.linear("2", x, config_.classes);
    }
    add_image_loss(b, x, options_);
    return checked(b.finish());
  }

 private:
  TensorId permute(TensorId x, std::vector<std::int64_t> axes) {
    return builder_.add("permute", {x}, {{"axes", std::move(axes)}});
  }

  // Normalises over the channels, which are moved behind the pixels and back.
  TensorId layer_norm_2d(std::string_view module, TensorId x) {
    x = permute(x, {0, 2, 3, 1});
    return permute(builder_.layer_norm(module, x), {0, 3, 1, 2});
  }

  // result = layer_scale * block(input); result = stochastic_depth(result); result += input
  TensorId block(const std::string& module, TensorId x) {
    ModelBuilder& b = builder_;
    auto scope = b.block(module);
    scope.local(x);
    const std::int64_t width = b.shape(x)[1];
    const TensorId scale = b.parameter("layer_scale", {width, 1, 1});
    TensorId y = b.conv2d("block.0", x, width, {.kernel = 7, .padding = 3, .groups = width});
    y = b.layer_norm("block.2", permute(y, {0, 2, 3, 1}));
    y = b.linear("block.3", y, kFfnExpansion * width);
    y = b.linear("block.5", b.activation("gelu", y), width);
    y = b.multiply(scale, permute(y, {0, 3, 1, 2}));
    y = b.add("stochastic_depth", {y}, {{"p", next_probability()}});
    return b.add_tensors(y, x, true);
  }

  double next_probability() {
    std::int64_t all = 0;
    for (std::int64_t blocks : config_.blocks)
      all += blocks;
    if (all == 1) return 0;
    return config_.stochastic_depth * static_cast<double>(built_++) / static_cast<double>(all - 1);
  }

  const ConvnextConfig& config_;
  const ModelOptions& options_;
  ModelBuilder builder_;
  std::int64_t built_ = 0;
};

Graph build_convnext(const ConvnextConfig& config, const std::string& name,
                     const ModelOptions& options) {
  check_options(options);
  return ConvnextBuilder(config, name, options).build();
}

}  // namespace
}  // namespace convnext_detail

std::vector<ModelPreset> convnext_presets() {
  const auto preset = [](std::string name, std::string summary,
                         convnext_detail::ConvnextConfig config) {
    return make_preset<convnext_detail::ConvnextConfig>(
        std::move(name), "vision", std::move(summary), std::move(config),
        convnext_detail::decode_convnext, convnext_detail::build_convnext);
  };
  return {
      preset("convnext_tiny", "ConvNeXt-T, 28.6 M parameters (torchvision)", {}),
      preset("convnext_small", "ConvNeXt-S, 50.2 M parameters (torchvision)",
             {.blocks = {3, 3, 27, 3}, .stochastic_depth = 0.4}),
      preset("convnext_base", "ConvNeXt-B, 88.6 M parameters (torchvision)",
             {.blocks = {3, 3, 27, 3}, .widths = {128, 256, 512, 1024}, .stochastic_depth = 0.5}),
      preset("convnext_large", "ConvNeXt-L, 197.8 M parameters (torchvision)",
             {.blocks = {3, 3, 27, 3}, .widths = {192, 384, 768, 1536}, .stochastic_depth = 0.5}),
  };
}

}  // namespace tidemark
