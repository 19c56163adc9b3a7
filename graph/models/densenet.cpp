// DenseNet (Huang et al. 2017), module by module as torchvision.models.densenet without
// memory_efficient: every layer concatenates the outputs of all layers before it in its block.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "graph/models/image_classifier.hpp"
#include "graph/models/model_limits.hpp"
#include "graph/models/preset.hpp"

namespace tidemark {

namespace densenet_detail {
namespace {

constexpr std::int64_t kMaxBlockLayers = 256;  // all pairs of layers of a block meet

struct DensenetConfig {
  std::vector<std::int64_t> blocks = {6, 12, 24, 16};  // layers per block
  std::int64_t growth = 32;                            // channels that a layer adds
  std::int64_t stem = 64;
  std::int64_t bottleneck = 4;  // the 1x1 convolution has bottleneck * growth channels
  double dropout = 0;
  std::int64_t classes = 1000;
  std::int64_t image = 224;
};

DensenetConfig decode_densenet(const Decoder& overrides, DensenetConfig config) {
  constexpr std::size_t kMaxBlocks = 16;
  const Decoder& d = overrides;
  config.blocks =
      d.optional_list<std::int64_t>("blocks", std::move(config.blocks), up_to(kMaxBlockLayers));
  if (config.blocks.empty() || config.blocks.size() > kMaxBlocks) {
    d.fail_at("blocks",
              fmt::format("expected 1 to {} blocks, found {}", kMaxBlocks, config.blocks.size()));
  }
  config.growth = d.optional<std::int64_t>("growth", config.growth, up_to(4096));
  config.stem = d.optional<std::int64_t>("stem", config.stem, between(2, 4096));
  config.bottleneck = d.optional<std::int64_t>("bottleneck", config.bottleneck, up_to(64));
  config.dropout = d.optional<double>("dropout", config.dropout, between(0, 1));
  config.classes = d.optional<std::int64_t>("classes", config.classes, up_to(kMaxVocabulary));
  config.image = d.optional<std::int64_t>("image", config.image, up_to(kMaxImage));
  return config;
}

class DensenetBuilder {
 public:
  DensenetBuilder(const DensenetConfig& config, const std::string& name,
                  const ModelOptions& options)
      : config_(config), options_(options), builder_(name, options.dtype) {}

  Graph build() {
    ModelBuilder& b = builder_;
    TensorId x = image_input(b, options_, config_.image);
    x = b.conv2d("features.conv0", x, config_.stem,
                 {.kernel = 7, .stride = 2, .padding = 3, .bias = false});
    x = b.activation("relu", b.batch_norm("features.norm0", x), true);
    x = b.max_pool2d(x, 3, 2, 1);
    for (std::size_t i = 0; i < config_.blocks.size(); ++i) {
      x = dense_block(i + 1, x, config_.blocks[i]);
      if (i + 1 < config_.blocks.size()) x = transition(i + 1, x);
    }
    x = b.activation("relu", b.batch_norm("features.norm5", x), true);
    x = b.flatten(b.global_avg_pool2d(x), 1);
    add_image_loss(b, b.linear("classifier", x, config_.classes), options_);
    return checked(b.finish());
  }

 private:
  TensorId dense_block(std::size_t number, TensorId x, std::int64_t layers) {
    ModelBuilder& b = builder_;
    auto scope = b.scope(fmt::format("features.denseblock{}", number));
    std::vector<TensorId> features{x};
    for (std::int64_t i = 0; i < layers; ++i) {
      const auto layer = b.block(fmt::format("denselayer{}", i + 1));
      features.push_back(dense_layer(features));
    }
    for (TensorId feature : features)
      scope.local(feature);  // the list of features
    return b.cat(features, 1);
  }

  // conv2(relu2(norm2(conv1(relu1(norm1(cat(features)))))))
  TensorId dense_layer(const std::vector<TensorId>& features) {
    ModelBuilder& b = builder_;
    TensorId x = b.cat(features, 1);
    x = b.activation("relu", b.batch_norm("norm1", x), true);
    x = b.conv2d("conv1", x, config_.bottleneck * config_.growth, {.kernel = 1, .bias = false});
    x = b.activation("relu", b.batch_norm("norm2", x), true);
    x = b.conv2d("conv2", x, config_.growth, {.kernel = 3, .padding = 1, .bias = false});
    return b.dropout(x, options_.dropout.value_or(config_.dropout));
  }

  TensorId transition(std::size_t number, TensorId x) {
    ModelBuilder& b = builder_;
    const auto scope = b.scope(fmt::format("features.transition{}", number));
    x = b.activation("relu", b.batch_norm("norm", x), true);
    x = b.conv2d("conv", x, b.shape(x)[1] / 2, {.kernel = 1, .bias = false});
    return b.avg_pool2d(x, 2, 2, 0);
  }

  const DensenetConfig& config_;
  const ModelOptions& options_;
  ModelBuilder builder_;
};

Graph build_densenet(const DensenetConfig& config, const std::string& name,
                     const ModelOptions& options) {
  check_options(options);
  return DensenetBuilder(config, name, options).build();
}

}  // namespace
}  // namespace densenet_detail

std::vector<ModelPreset> densenet_presets() {
  const auto preset = [](std::string name, std::string summary,
                         densenet_detail::DensenetConfig config) {
    return make_preset<densenet_detail::DensenetConfig>(
        std::move(name), "vision", std::move(summary), std::move(config),
        densenet_detail::decode_densenet, densenet_detail::build_densenet);
  };
  return {
      preset("densenet121", "DenseNet-121, 7.98 M parameters (torchvision)", {}),
      preset("densenet161", "DenseNet-161, 28.7 M parameters (torchvision)",
             {.blocks = {6, 12, 36, 24}, .growth = 48, .stem = 96}),
      preset("densenet169", "DenseNet-169, 14.1 M parameters (torchvision)",
             {.blocks = {6, 12, 32, 32}}),
      preset("densenet201", "DenseNet-201, 20.0 M parameters (torchvision)",
             {.blocks = {6, 12, 48, 32}}),
  };
}

}  // namespace tidemark
