// RegNets (Radosavovic et al. 2020), module by module as torchvision.models.regnet.
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
namespace regnet_detail {
namespace {

constexpr std::int64_t kStem = 32;

// The parameters of the paper's equations 2 to 4; the widths of the blocks follow from them.
struct RegnetConfig {
  std::int64_t depth = 16;
  double first_width = 48;
  double slope = 27.89;
  double multiplier = 2.09;
  std::int64_t group_width = 8;
  double squeeze = 0.25;  // share of a block's input channels; 0: no squeeze and excitation (X)
  std::int64_t classes = 1000;
  std::int64_t image = 224;
};

RegnetConfig decode_regnet(const Decoder& overrides, RegnetConfig config) {
  const Decoder& d = overrides;
  config.depth = d.optional<std::int64_t>("depth", config.depth, up_to(1024));
  config.first_width = d.optional<double>("first_width", config.first_width, between(8, 65536));
  config.slope = d.optional<double>("slope", config.slope, between(0, 65536));
  config.multiplier = d.optional<double>("multiplier", config.multiplier, between(1.01, 16));
  config.group_width = d.optional<std::int64_t>("group_width", config.group_width, up_to(65536));
  config.squeeze = d.optional<double>("squeeze", config.squeeze, between(0, 1));
  config.classes = d.optional<std::int64_t>("classes", config.classes, up_to(kMaxVocabulary));
  config.image = d.optional<std::int64_t>("image", config.image, up_to(kMaxImage));
  return config;
}

struct Stage {
  std::int64_t width = 0;
  std::int64_t blocks = 0;
  std::int64_t group_width = 0;
};

// Returns `value` rounded to a multiple of `divisor`, and up where it would lose a tenth.
std::int64_t divisible(double value, std::int64_t divisor) {
  const auto rounded =
      std::max(divisor, static_cast<std::int64_t>(value + static_cast<double>(divisor) / 2) /
                            divisor * divisor);
  return static_cast<double>(rounded) < 0.9 * value ? rounded + divisor : rounded;
}

// BlockParams.from_init_params: widths grow linearly, are drawn to powers of the multiplier and to
// multiples of 8; blocks of equal width are a stage.
std::vector<Stage> stages_of(const RegnetConfig& config) {
  std::vector<Stage> stages;
  for (std::int64_t i = 0; i < config.depth; ++i) {
    const double wide = config.first_width + config.slope * static_cast<double>(i);
    const double power =
        std::nearbyint(std::log(wide / config.first_width) / std::log(config.multiplier));
    const double exact = config.first_width * std::pow(config.multiplier, power);
    const auto width = static_cast<std::int64_t>(std::nearbyint(exact / 8)) * 8;
    if (stages.empty() || stages.back().width != width) stages.push_back({.width = width});
    ++stages.back().blocks;
  }
  for (Stage& stage : stages) {
    stage.group_width = std::min(config.group_width, stage.width);
    stage.width = divisible(static_cast<double>(stage.width), stage.group_width);
  }
  return stages;
}

class RegnetBuilder {
 public:
  RegnetBuilder(const RegnetConfig& config, const std::string& name, const ModelOptions& options)
      : config_(config), options_(options), builder_(name, options.dtype) {}

  Graph build() {
    ModelBuilder& b = builder_;
    TensorId x = image_input(b, options_, config_.image);
    x = normed("stem", x, kStem, {.kernel = 3, .stride = 2, .padding = 1});
    x = b.activation("relu", x, true);
    int index = 1;
    for (const Stage& stage : stages_of(config_)) {
      for (std::int64_t i = 0; i < stage.blocks; ++i) {
        x = block(fmt::format("trunk_output.block{0}.block{0}-{1}", index, i), x, stage,
                  i == 0 ? 2 : 1);
      }
      ++index;
    }
    x = b.linear("fc", b.flatten(b.global_avg_pool2d(x), 1), config_.classes);
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

  // relu(proj(x) + c(se(relu(b(relu(a(x)))))))
  TensorId block(const std::string& module, TensorId x, const Stage& stage, std::int64_t stride) {
    ModelBuilder& b = builder_;
    auto scope = b.block(module);
    scope.local(x);
    const std::int64_t in = b.shape(x)[1];
    TensorId shortcut = x;
    if (in != stage.width || stride != 1)
      shortcut = normed("proj", x, stage.width, {.kernel = 1, .stride = stride});
    TensorId y = b.activation("relu", normed("f.a", x, stage.width, {.kernel = 1}), true);
    y = normed(
        "f.b", y, stage.width,
        {.kernel = 3, .stride = stride, .padding = 1, .groups = stage.width / stage.group_width});
    y = b.activation("relu", y, true);
    if (config_.squeeze > 0) {
      const auto squeezed =
          static_cast<std::int64_t>(std::nearbyint(config_.squeeze * static_cast<double>(in)));
      y = squeeze_excitation(b, "f.se", y, std::max<std::int64_t>(squeezed, 1), "relu");
    }
    y = normed("f.c", y, stage.width, {.kernel = 1});
    return b.activation("relu", b.add_tensors(shortcut, y), true);
  }

  const RegnetConfig& config_;
  const ModelOptions& options_;
  ModelBuilder builder_;
};

Graph build_regnet(const RegnetConfig& config, const std::string& name,
                   const ModelOptions& options) {
  check_options(options);
  return RegnetBuilder(config, name, options).build();
}

RegnetConfig regnet(std::int64_t depth, double first_width, double slope, double multiplier,
                    std::int64_t group_width, double squeeze) {
  return {.depth = depth,
          .first_width = first_width,
          .slope = slope,
          .multiplier = multiplier,
          .group_width = group_width,
          .squeeze = squeeze};
}

}  // namespace
}  // namespace regnet_detail

std::vector<ModelPreset> regnet_presets() {
  using regnet_detail::regnet;
  const auto preset = [](std::string name, regnet_detail::RegnetConfig config) {
    const std::string_view kind = config.squeeze > 0 ? "RegNetY" : "RegNetX";
    const std::string size = name.substr(9);
    return make_preset<regnet_detail::RegnetConfig>(
        std::move(name), "vision", fmt::format("{} {} (torchvision)", kind, size), config,
        regnet_detail::decode_regnet, regnet_detail::build_regnet);
  };
  constexpr double kSqueeze = 0.25;
  return {
      preset("regnet_y_400mf", regnet(16, 48, 27.89, 2.09, 8, kSqueeze)),
      preset("regnet_y_800mf", regnet(14, 56, 38.84, 2.4, 16, kSqueeze)),
      preset("regnet_y_1_6gf", regnet(27, 48, 20.71, 2.65, 24, kSqueeze)),
      preset("regnet_y_3_2gf", regnet(21, 80, 42.63, 2.66, 24, kSqueeze)),
      preset("regnet_y_8gf", regnet(17, 192, 76.82, 2.19, 56, kSqueeze)),
      preset("regnet_y_16gf", regnet(18, 200, 106.23, 2.48, 112, kSqueeze)),
      preset("regnet_y_32gf", regnet(20, 232, 115.89, 2.53, 232, kSqueeze)),
      preset("regnet_y_128gf", regnet(27, 456, 160.83, 2.52, 264, kSqueeze)),
      preset("regnet_x_400mf", regnet(22, 24, 24.48, 2.54, 16, 0)),
      preset("regnet_x_800mf", regnet(16, 56, 35.73, 2.28, 16, 0)),
      preset("regnet_x_1_6gf", regnet(18, 80, 34.01, 2.25, 24, 0)),
      preset("regnet_x_3_2gf", regnet(25, 88, 26.31, 2.25, 48, 0)),
      preset("regnet_x_8gf", regnet(23, 80, 49.56, 2.88, 120, 0)),
      preset("regnet_x_16gf", regnet(22, 216, 55.59, 2.1, 128, 0)),
      preset("regnet_x_32gf", regnet(23, 320, 69.86, 2.0, 168, 0)),
  };
}

}  // namespace tidemark
