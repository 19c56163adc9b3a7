// U-Net (Ronneberger et al. 2015) with batch norm and padded convolutions, so that the result is as
// large as the image: double convolutions, max pooling down, transposed convolutions up, skip
// connections by concatenation.
#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "graph/core/errors.hpp"
#include "graph/models/image_classifier.hpp"
#include "graph/models/model_limits.hpp"
#include "graph/models/preset.hpp"

namespace tidemark {

namespace unet_detail {
namespace {

struct UnetConfig {
  std::vector<std::int64_t> widths = {32, 64, 128, 256};  // channels per resolution
  std::int64_t classes = 21;
  std::int64_t image = 128;
};

UnetConfig decode_unet(const Decoder& overrides, UnetConfig config) {
  constexpr std::size_t kMaxResolutions = 16;
  const Decoder& d = overrides;
  config.widths =
      d.optional_list<std::int64_t>("widths", std::move(config.widths), up_to(kMaxWidth));
  if (config.widths.empty() || config.widths.size() > kMaxResolutions) {
    d.fail_at("widths", fmt::format("expected 1 to {} resolutions, found {}", kMaxResolutions,
                                    config.widths.size()));
  }
  config.classes = d.optional<std::int64_t>("classes", config.classes, up_to(kMaxVocabulary));
  config.image = d.optional<std::int64_t>("image", config.image, up_to(kMaxImage));
  return config;
}

// Twice Conv2d(3, padding=1, bias=False), BatchNorm2d, ReLU(inplace=True).
TensorId double_convolution(ModelBuilder& b, const std::string& module, TensorId x,
                            std::int64_t channels) {
  const auto scope = b.block(module);
  for (int i = 0; i < 6; i += 3) {
    x = b.conv2d(fmt::format("{}", i), x, channels, {.kernel = 3, .padding = 1, .bias = false});
    x = b.activation("relu", b.batch_norm(fmt::format("{}", i + 1), x), true);
  }
  return x;
}

Graph build_unet(const UnetConfig& config, const std::string& name, const ModelOptions& options) {
  check_options(options);
  const std::int64_t side = options.image.value_or(config.image);
  const std::int64_t step = std::int64_t{1} << (config.widths.size() - 1);
  if (side % step != 0) {
    throw UserError(
        {}, "training.image",
        fmt::format("an image of {} pixels cannot be halved {} times; the nearest "
                    "sizes that can are {} and {}",
                    side, config.widths.size() - 1, std::max(side / step, std::int64_t{1}) * step,
                    (side / step + 1) * step));
  }
  ModelBuilder b(name, options.dtype);
  TensorId x = image_input(b, options, config.image);
  std::vector<TensorId> skips;
  for (std::size_t i = 0; i < config.widths.size(); ++i) {
    if (i > 0) {
      skips.push_back(x);
      x = b.max_pool2d(x, 2, 2, 0);
    }
    x = double_convolution(b, fmt::format("d.{}", i), x, config.widths[i]);
  }
  for (std::size_t i = 0; i < skips.size(); ++i) {
    const std::int64_t channels = config.widths[skips.size() - 1 - i];
    x = b.conv_transpose2d(fmt::format("up.{}", i), x, channels, {.kernel = 2, .stride = 2});
    x = b.cat({skips[skips.size() - 1 - i], x}, 1);
    x = double_convolution(b, fmt::format("u.{}", i), x, channels);
  }
  add_image_loss(b, b.conv2d("o", x, config.classes, {.kernel = 1}), options);
  return checked(b.finish());
}

}  // namespace
}  // namespace unet_detail

std::vector<ModelPreset> unet_presets() {
  return {make_preset<unet_detail::UnetConfig>(
      "unet", "vision", "U-Net for segmentation with batch norm, free widths", {},
      unet_detail::decode_unet, unet_detail::build_unet)};
}

}  // namespace tidemark
