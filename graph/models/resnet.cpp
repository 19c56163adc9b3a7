// Residual networks (He et al. 2016), module by module as torchvision.models.resnet.
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "graph/models/losses.hpp"
#include "graph/models/model_limits.hpp"
#include "graph/models/preset.hpp"

namespace tidemark {

namespace resnet_detail {
namespace {

constexpr std::array<std::int64_t, 4> kStageChannels = {64, 128, 256, 512};
constexpr std::int64_t kBottleneckExpansion = 4;  // torchvision: Bottleneck.expansion
constexpr std::int64_t kMaxStageBlocks = 1024;

struct ResnetConfig {
  std::vector<std::int64_t> blocks = {3, 4, 6, 3};  // residual blocks per stage
  bool bottleneck = true;                           // 1x1, 3x3, 1x1 instead of 3x3, 3x3
  std::int64_t groups = 1;            // groups of the 3x3 convolution (ResNeXt); bottleneck only
  std::int64_t width_per_group = 64;  // 128 for Wide ResNet; bottleneck only
  std::int64_t classes = 1000;
  std::int64_t image = 224;
};

ResnetConfig decode_resnet(const Decoder& overrides, ResnetConfig config) {
  const Decoder& d = overrides;
  config.blocks =
      d.optional_list<std::int64_t>("blocks", std::move(config.blocks), up_to(kMaxStageBlocks));
  if (config.blocks.size() != kStageChannels.size()) {
    d.fail_at("blocks", fmt::format("expected 4 stages, found {}", config.blocks.size()));
  }
  config.bottleneck = d.optional<bool>("bottleneck", config.bottleneck);
  config.groups = d.optional<std::int64_t>("groups", config.groups, up_to(1024));
  config.width_per_group =
      d.optional<std::int64_t>("width_per_group", config.width_per_group, up_to(4096));
  config.classes = d.optional<std::int64_t>("classes", config.classes, up_to(kMaxVocabulary));
  config.image = d.optional<std::int64_t>("image", config.image, up_to(kMaxImage));
  if (!config.bottleneck && (config.groups != 1 || config.width_per_group != 64)) {
    d.fail_at(config.groups != 1 ? "groups" : "width_per_group",
              "only bottleneck blocks have groups and a width; write bottleneck: true");
  }
  return config;
}

class ResnetBuilder {
 public:
  ResnetBuilder(const ResnetConfig& config, const std::string& name, const ModelOptions& options)
      : config_(config), options_(options), builder_(name, options.dtype) {}

  Graph build() {
    ModelBuilder& b = builder_;
    const std::int64_t side = options_.image.value_or(config_.image);
    const std::int64_t batch = options_.micro_batch;
    static_cast<void>(element_count({batch, kStageChannels[0], side, side}));
    TensorId x = b.input("images", {batch, 3, side, side}, options_.dtype);
    x = convolution("conv1", x, kStageChannels[0], {.kernel = 7, .stride = 2, .padding = 3});
    x = b.activation("relu", b.batch_norm("bn1", x), true);
    x = b.max_pool2d(x, 3, 2, 1);
    for (std::size_t stage = 0; stage < kStageChannels.size(); ++stage) {
      for (std::int64_t i = 0; i < config_.blocks[stage]; ++i) {
        // The first block of every stage but the first halves the image.
        const std::int64_t stride = stage > 0 && i == 0 ? 2 : 1;
        x = residual_block(fmt::format("layer{}.{}", stage + 1, i), x, kStageChannels[stage],
                           stride);
      }
    }
    x = b.flatten(b.global_avg_pool2d(x), 1);
    x = b.linear("fc", x, config_.classes);
    b.set_output(x);
    b.set_samples(batch, 0);
    add_loss(b, x, options_.loss);
    return checked(b.finish());
  }

 private:
  TensorId convolution(std::string_view module, TensorId x, std::int64_t channels,
                       Conv2dOptions options) {
    options.bias = false;  // batch norm has one
    return builder_.conv2d(module, x, channels, options);
  }

  // out = relu(bn1(conv1(x))); ...; out = bn3(conv3(out)); out += identity; relu(out)
  TensorId residual_block(const std::string& module, TensorId x, std::int64_t planes,
                          std::int64_t stride) {
    ModelBuilder& b = builder_;
    auto scope = b.block(module);
    scope.local(x);
    const TensorId out =
        config_.bottleneck ? bottleneck_path(x, planes, stride) : basic_path(x, planes, stride);
    const TensorId identity = shortcut(x, b.shape(out)[1], stride);
    scope.local(identity);
    return b.activation("relu", b.add_tensors(out, identity, true), true);
  }

  TensorId basic_path(TensorId x, std::int64_t planes, std::int64_t stride) {
    ModelBuilder& b = builder_;
    x = convolution("conv1", x, planes, {.kernel = 3, .stride = stride, .padding = 1});
    x = b.activation("relu", b.batch_norm("bn1", x), true);
    x = convolution("conv2", x, planes, {.kernel = 3, .padding = 1});
    return b.batch_norm("bn2", x);
  }

  // The stride is on the 3x3 convolution: "ResNet V1.5".
  TensorId bottleneck_path(TensorId x, std::int64_t planes, std::int64_t stride) {
    ModelBuilder& b = builder_;
    const std::int64_t width = planes * config_.width_per_group / 64 * config_.groups;
    x = convolution("conv1", x, width, {.kernel = 1});
    x = b.activation("relu", b.batch_norm("bn1", x), true);
    x = convolution("conv2", x, width,
                    {.kernel = 3, .stride = stride, .padding = 1, .groups = config_.groups});
    x = b.activation("relu", b.batch_norm("bn2", x), true);
    x = convolution("conv3", x, planes * kBottleneckExpansion, {.kernel = 1});
    return b.batch_norm("bn3", x);
  }

  TensorId shortcut(TensorId x, std::int64_t channels, std::int64_t stride) {
    if (stride == 1 && builder_.shape(x)[1] == channels) return x;
    const auto scope = builder_.scope("downsample");
    x = convolution("0", x, channels, {.kernel = 1, .stride = stride});
    return builder_.batch_norm("1", x);
  }

  const ResnetConfig& config_;
  const ModelOptions& options_;
  ModelBuilder builder_;
};

Graph build_resnet(const ResnetConfig& config, const std::string& name,
                   const ModelOptions& options) {
  check_options(options);
  return ResnetBuilder(config, name, options).build();
}

}  // namespace
}  // namespace resnet_detail

std::vector<ModelPreset> resnet_presets() {
  const auto preset = [](std::string name, std::string summary,
                         resnet_detail::ResnetConfig config) {
    return make_preset<resnet_detail::ResnetConfig>(std::move(name), "vision", std::move(summary),
                                                    std::move(config), resnet_detail::decode_resnet,
                                                    resnet_detail::build_resnet);
  };
  return {
      preset("resnet18", "ResNet-18, 11.7 M parameters (torchvision)",
             {.blocks = {2, 2, 2, 2}, .bottleneck = false}),
      preset("resnet34", "ResNet-34, 21.8 M parameters (torchvision)",
             {.blocks = {3, 4, 6, 3}, .bottleneck = false}),
      preset("resnet50", "ResNet-50, 25.6 M parameters (torchvision)", {.blocks = {3, 4, 6, 3}}),
      preset("resnet101", "ResNet-101, 44.5 M parameters (torchvision)", {.blocks = {3, 4, 23, 3}}),
      preset("resnet152", "ResNet-152, 60.2 M parameters (torchvision)", {.blocks = {3, 8, 36, 3}}),
      preset("resnext50_32x4d", "ResNeXt-50, 25.0 M parameters (torchvision)",
             {.blocks = {3, 4, 6, 3}, .groups = 32, .width_per_group = 4}),
      preset("resnext101_32x8d", "ResNeXt-101, 88.8 M parameters (torchvision)",
             {.blocks = {3, 4, 23, 3}, .groups = 32, .width_per_group = 8}),
      preset("resnext101_64x4d", "ResNeXt-101, 83.5 M parameters (torchvision)",
             {.blocks = {3, 4, 23, 3}, .groups = 64, .width_per_group = 4}),
      preset("wide_resnet50_2", "Wide ResNet-50-2, 68.9 M parameters (torchvision)",
             {.blocks = {3, 4, 6, 3}, .width_per_group = 128}),
      preset("wide_resnet101_2", "Wide ResNet-101-2, 127 M parameters (torchvision)",
             {.blocks = {3, 4, 23, 3}, .width_per_group = 128}),
  };
}

}  // namespace tidemark
