// MobileNetV2 (Sandler et al. 2018), module by module as torchvision.models.mobilenetv2.
#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "graph/models/image_classifier.hpp"
#include "graph/models/model_limits.hpp"
#include "graph/models/preset.hpp"

namespace tidemark {

namespace mobilenet_detail {
namespace {

struct MobilenetConfig {
  double width = 1.0;  // multiplies every number of channels
  double dropout = 0.2;
  std::int64_t classes = 1000;
  std::int64_t image = 224;
};

MobilenetConfig decode_mobilenet(const Decoder& overrides, MobilenetConfig config) {
  constexpr double kMaxMultiplier = 64;
  const Decoder& d = overrides;
  config.width = d.optional<double>("width", config.width, between(0.01, kMaxMultiplier));
  config.dropout = d.optional<double>("dropout", config.dropout, between(0, 1));
  config.classes = d.optional<std::int64_t>("classes", config.classes, up_to(kMaxVocabulary));
  config.image = d.optional<std::int64_t>("image", config.image, up_to(kMaxImage));
  return config;
}

// torchvision's _make_divisible: the nearest multiple of 8 that is not 10 % too small.
std::int64_t channels_for(double wanted) {
  constexpr std::int64_t kMultiple = 8;
  const auto nearest = static_cast<std::int64_t>(wanted + static_cast<double>(kMultiple) / 2) /
                       kMultiple * kMultiple;
  const std::int64_t channels = std::max(kMultiple, nearest);
  return static_cast<double>(channels) < 0.9 * wanted ? channels + kMultiple : channels;
}

// Conv2d without bias, BatchNorm2d, ReLU6(inplace=True)
TensorId conv_norm_relu6(ModelBuilder& b, std::string_view module, TensorId x,
                         std::int64_t channels, Conv2dOptions options) {
  const auto scope = b.scope(module);
  options.bias = false;
  x = b.batch_norm("1", b.conv2d("0", x, channels, options));
  return b.activation("relu6", x, true);
}

// 1x1 to expansion * channels, depthwise 3x3, 1x1 back; a residual where shapes allow it.
TensorId inverted_residual(ModelBuilder& b, TensorId x, std::int64_t channels, std::int64_t stride,
                           std::int64_t expansion) {
  const TensorId identity = x;
  const std::int64_t in_channels = b.shape(x)[1];
  const std::int64_t hidden = in_channels * expansion;
  int module = 0;
  const auto next = [&] { return fmt::format("conv.{}", module++); };
  if (expansion != 1) x = conv_norm_relu6(b, next(), x, hidden, {.kernel = 1});
  x = conv_norm_relu6(b, next(), x, hidden,
                      {.kernel = 3, .stride = stride, .padding = 1, .groups = hidden});
  x = b.conv2d(next(), x, channels, {.kernel = 1, .bias = false});
  x = b.batch_norm(next(), x);
  return stride == 1 && in_channels == channels ? b.add_tensors(identity, x) : x;
}

Graph build_mobilenet(const MobilenetConfig& config, const std::string& name,
                      const ModelOptions& options) {
  struct Stage {
    std::int64_t expansion, channels, repeats, stride;
  };
  constexpr Stage kStages[] = {{1, 16, 1, 1}, {6, 24, 2, 2},  {6, 32, 3, 2}, {6, 64, 4, 2},
                               {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}};
  constexpr double kStem = 32;
  constexpr double kLast = 1280;
  check_options(options);
  ModelBuilder b(name, options.dtype);
  TensorId x = image_input(b, options, config.image);
  x = conv_norm_relu6(b, "features.0", x, channels_for(kStem * config.width),
                      {.kernel = 3, .stride = 2, .padding = 1});
  int module = 1;
  for (const Stage& stage : kStages) {
    const std::int64_t channels = channels_for(static_cast<double>(stage.channels) * config.width);
    for (std::int64_t i = 0; i < stage.repeats; ++i) {
      auto block = b.block(fmt::format("features.{}", module++));
      block.local(x);
      x = inverted_residual(b, x, channels, i == 0 ? stage.stride : 1, stage.expansion);
    }
  }
  x = conv_norm_relu6(b, fmt::format("features.{}", module), x,
                      channels_for(kLast * std::max(1.0, config.width)), {.kernel = 1});
  x = b.flatten(b.global_avg_pool2d(x), 1);
  {
    auto classifier = b.scope("classifier");
    classifier.local(x);
    x = b.dropout(x, options.dropout.value_or(config.dropout));
    x = b.linear("1", x, config.classes);
  }
  add_image_loss(b, x, options);
  return checked(b.finish());
}

}  // namespace
}  // namespace mobilenet_detail

std::vector<ModelPreset> mobilenet_presets() {
  return {make_preset<mobilenet_detail::MobilenetConfig>(
      "mobilenet_v2", "vision", "MobileNetV2, 3.50 M parameters (torchvision)", {},
      mobilenet_detail::decode_mobilenet, mobilenet_detail::build_mobilenet)};
}

}  // namespace tidemark
