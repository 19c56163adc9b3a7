// EfficientNets (Tan and Le 2019, 2021), module by module as torchvision.models.efficientnet.
#include <algorithm>
#include <cmath>
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
namespace efficientnet_detail {
namespace {

struct Stage {
  std::int64_t expansion = 1;
  std::int64_t kernel = 3;
  std::int64_t stride = 1;
  std::int64_t in = 0;
  std::int64_t out = 0;
  std::int64_t blocks = 1;
  bool fused = false;  // one full convolution expands, without squeeze and excitation
};

enum class Version { kOne, kTwoSmall, kTwoMedium, kTwoLarge };

struct EfficientnetConfig {
  Version version = Version::kOne;
  double width = 1;  // factor on the channels, and on the blocks of version 1
  double depth = 1;
  double dropout = 0.2;
  double stochastic_depth = 0.2;  // of the last block; it grows from 0
  std::int64_t classes = 1000;
  std::int64_t image = 224;
};

EfficientnetConfig decode_efficientnet(const Decoder& overrides, EfficientnetConfig config) {
  const Decoder& d = overrides;
  if (config.version == Version::kOne) {
    config.width = d.optional<double>("width", config.width, between(0.1, 16));
    config.depth = d.optional<double>("depth", config.depth, between(0.1, 16));
  }
  config.dropout = d.optional<double>("dropout", config.dropout, between(0, 1));
  config.stochastic_depth =
      d.optional<double>("stochastic_depth", config.stochastic_depth, between(0, 1));
  config.classes = d.optional<std::int64_t>("classes", config.classes, up_to(kMaxVocabulary));
  config.image = d.optional<std::int64_t>("image", config.image, up_to(kMaxImage));
  return config;
}

// Returns `channels` times the factor as a multiple of 8, and up where it would lose a tenth.
std::int64_t channels_of(std::int64_t channels, double factor) {
  constexpr std::int64_t kDivisor = 8;
  const double wanted = static_cast<double>(channels) * factor;
  const auto rounded =
      std::max(kDivisor, static_cast<std::int64_t>(wanted + kDivisor / 2.0) / kDivisor * kDivisor);
  return static_cast<double>(rounded) < 0.9 * wanted ? rounded + kDivisor : rounded;
}

std::vector<Stage> stages_of(const EfficientnetConfig& config) {
  switch (config.version) {
    case Version::kTwoSmall:
      return {{1, 3, 1, 24, 24, 2, true},    {4, 3, 2, 24, 48, 4, true},
              {4, 3, 2, 48, 64, 4, true},    {4, 3, 2, 64, 128, 6, false},
              {6, 3, 1, 128, 160, 9, false}, {6, 3, 2, 160, 256, 15, false}};
    case Version::kTwoMedium:
      return {{1, 3, 1, 24, 24, 3, true},     {4, 3, 2, 24, 48, 5, true},
              {4, 3, 2, 48, 80, 5, true},     {4, 3, 2, 80, 160, 7, false},
              {6, 3, 1, 160, 176, 14, false}, {6, 3, 2, 176, 304, 18, false},
              {6, 3, 1, 304, 512, 5, false}};
    case Version::kTwoLarge:
      return {{1, 3, 1, 32, 32, 4, true},     {4, 3, 2, 32, 64, 7, true},
              {4, 3, 2, 64, 96, 7, true},     {4, 3, 2, 96, 192, 10, false},
              {6, 3, 1, 192, 224, 19, false}, {6, 3, 2, 224, 384, 25, false},
              {6, 3, 1, 384, 640, 7, false}};
    case Version::kOne:
      break;
  }
  std::vector<Stage> stages{{1, 3, 1, 32, 16, 1},  {6, 3, 2, 16, 24, 2},  {6, 5, 2, 24, 40, 2},
                            {6, 3, 2, 40, 80, 3},  {6, 5, 1, 80, 112, 3}, {6, 5, 2, 112, 192, 4},
                            {6, 3, 1, 192, 320, 1}};
  for (Stage& stage : stages) {
    stage.in = channels_of(stage.in, config.width);
    stage.out = channels_of(stage.out, config.width);
    stage.blocks = static_cast<std::int64_t>(
        std::ceil(static_cast<double>(stage.blocks) * config.depth - 1e-9));
  }
  return stages;
}

class EfficientnetBuilder {
 public:
  EfficientnetBuilder(const EfficientnetConfig& config, const std::string& name,
                      const ModelOptions& options)
      : config_(config), options_(options), builder_(name, options.dtype) {}

  Graph build() {
    ModelBuilder& b = builder_;
    const std::vector<Stage> stages = stages_of(config_);
    for (const Stage& stage : stages)
      blocks_ += stage.blocks;
    TensorId x = image_input(b, options_, config_.image);
    x = activated("features.0", x, stages.front().in, {.kernel = 3, .stride = 2, .padding = 1});
    for (std::size_t s = 0; s < stages.size(); ++s) {
      for (std::int64_t i = 0; i < stages[s].blocks; ++i)
        x = block(fmt::format("features.{}.{}", s + 1, i), x, stages[s], i == 0);
    }
    constexpr std::int64_t kLastOfTwo = 1280;
    const std::int64_t last = config_.version == Version::kOne ? 4 * stages.back().out : kLastOfTwo;
    x = activated(fmt::format("features.{}", stages.size() + 1), x, last, {.kernel = 1});
    x = b.flatten(b.global_avg_pool2d(x), 1);
    x = b.dropout(x, options_.dropout.value_or(config_.dropout), true);
    x = b.linear("classifier.1", x, config_.classes);
    add_image_loss(b, x, options_);
    return checked(b.finish());
  }

 private:
  TensorId normed(std::string_view module, TensorId x, std::int64_t channels,
                  Conv2dOptions options) {
    const auto scope = builder_.scope(module);
    options.bias = false;
    return builder_.batch_norm("1", builder_.conv2d("0", x, channels, options));
  }
  TensorId activated(std::string_view module, TensorId x, std::int64_t channels,
                     Conv2dOptions options) {
    return builder_.activation("silu", normed(module, x, channels, options), true);
  }

  // MBConv: 1x1 expands, depthwise, squeeze and excitation, 1x1 projects. FusedMBConv: one
  // convolution expands, 1x1 projects.
  TensorId block(const std::string& module, TensorId x, const Stage& stage, bool first) {
    ModelBuilder& b = builder_;
    auto scope = b.block(module);
    scope.local(x);
    const std::int64_t in = b.shape(x)[1];
    const std::int64_t stride = first ? stage.stride : 1;
    const std::int64_t expanded = in * stage.expansion;
    const Conv2dOptions spatial{
        .kernel = stage.kernel, .stride = stride, .padding = stage.kernel / 2};
    int part = 0;
    const auto next = [&] { return fmt::format("block.{}", part++); };
    TensorId y = x;
    if (stage.fused && expanded == in) {
      y = activated(next(), y, stage.out, spatial);
    } else if (stage.fused) {
      y = activated(next(), y, expanded, spatial);
      y = normed(next(), y, stage.out, {.kernel = 1});
    } else {
      if (expanded != in) y = activated(next(), y, expanded, {.kernel = 1});
      Conv2dOptions depthwise = spatial;
      depthwise.groups = expanded;
      y = activated(next(), y, expanded, depthwise);
      y = squeeze_excitation(b, next(), y, std::max<std::int64_t>(1, in / 4), "silu");
      y = normed(next(), y, stage.out, {.kernel = 1});
    }
    const double p =
        config_.stochastic_depth * static_cast<double>(built_++) / static_cast<double>(blocks_);
    if (stride != 1 || in != stage.out) return y;
    y = b.add("stochastic_depth", {y}, {{"p", p}});
    return b.add_tensors(y, x, true);
  }

  const EfficientnetConfig& config_;
  const ModelOptions& options_;
  ModelBuilder builder_;
  std::int64_t blocks_ = 0;
  std::int64_t built_ = 0;
};

Graph build_efficientnet(const EfficientnetConfig& config, const std::string& name,
                         const ModelOptions& options) {
  check_options(options);
  return EfficientnetBuilder(config, name, options).build();
}

}  // namespace
}  // namespace efficientnet_detail

std::vector<ModelPreset> efficientnet_presets() {
  using efficientnet_detail::Version;
  const auto preset = [](std::string name, std::string_view size,
                         efficientnet_detail::EfficientnetConfig config) {
    return make_preset<efficientnet_detail::EfficientnetConfig>(
        std::move(name), "vision", fmt::format("EfficientNet, {} parameters (torchvision)", size),
        config, efficientnet_detail::decode_efficientnet, efficientnet_detail::build_efficientnet);
  };
  const auto one = [](double width, double depth, double dropout, std::int64_t image) {
    return efficientnet_detail::EfficientnetConfig{
        .width = width, .depth = depth, .dropout = dropout, .image = image};
  };
  return {
      preset("efficientnet_b0", "5.29 M", one(1.0, 1.0, 0.2, 224)),
      preset("efficientnet_b1", "7.79 M", one(1.0, 1.1, 0.2, 240)),
      preset("efficientnet_b2", "9.11 M", one(1.1, 1.2, 0.3, 288)),
      preset("efficientnet_b3", "12.2 M", one(1.2, 1.4, 0.3, 300)),
      preset("efficientnet_b4", "19.3 M", one(1.4, 1.8, 0.4, 380)),
      preset("efficientnet_b5", "30.4 M", one(1.6, 2.2, 0.4, 456)),
      preset("efficientnet_b6", "43.0 M", one(1.8, 2.6, 0.5, 528)),
      preset("efficientnet_b7", "66.3 M", one(2.0, 3.1, 0.5, 600)),
      preset("efficientnet_v2_s", "21.5 M",
             {.version = Version::kTwoSmall, .dropout = 0.2, .image = 384}),
      preset("efficientnet_v2_m", "54.1 M",
             {.version = Version::kTwoMedium, .dropout = 0.3, .image = 480}),
      preset("efficientnet_v2_l", "119 M",
             {.version = Version::kTwoLarge, .dropout = 0.4, .image = 480}),
  };
}

}  // namespace tidemark
