// VGG (Simonyan and Zisserman 2015), module by module as torchvision.models.vgg.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "graph/models/image_classifier.hpp"
#include "graph/models/model_limits.hpp"
#include "graph/models/preset.hpp"

namespace tidemark {

namespace vgg_detail {
namespace {

constexpr std::size_t kVggStages = 5;
constexpr std::int64_t kVggChannels[kVggStages] = {64, 128, 256, 512, 512};
constexpr std::int64_t kPooled = 7;  // AdaptiveAvgPool2d((7, 7))

struct VggConfig {
  std::vector<std::int64_t> convolutions = {2, 2, 3, 3, 3};  // per stage
  bool batch_norm = false;
  std::int64_t hidden = 4096;  // width of the classifier's hidden layers
  double dropout = 0.5;
  std::int64_t classes = 1000;
  std::int64_t image = 224;
};

VggConfig decode_vgg(const Decoder& overrides, VggConfig config) {
  const Decoder& d = overrides;
  config.convolutions =
      d.optional_list<std::int64_t>("convolutions", std::move(config.convolutions), up_to(256));
  if (config.convolutions.size() != kVggStages) {
    d.fail_at("convolutions",
              fmt::format("expected {} stages, found {}", kVggStages, config.convolutions.size()));
  }
  config.batch_norm = d.optional<bool>("batch_norm", config.batch_norm);
  config.hidden = d.optional<std::int64_t>("hidden", config.hidden, up_to(kMaxWidth));
  config.dropout = d.optional<double>("dropout", config.dropout, between(0, 1));
  config.classes = d.optional<std::int64_t>("classes", config.classes, up_to(kMaxVocabulary));
  config.image = d.optional<std::int64_t>("image", config.image, up_to(kMaxImage));
  return config;
}

Graph build_vgg(const VggConfig& config, const std::string& name, const ModelOptions& options) {
  check_options(options);
  ModelBuilder b(name, options.dtype);
  TensorId x = image_input(b, options, config.image);
  std::int64_t module = 0;  // position in torchvision's nn.Sequential
  for (std::size_t stage = 0; stage < kVggStages; ++stage) {
    const auto block = b.block(fmt::format("features.stage{}", stage + 1));
    for (std::int64_t i = 0; i < config.convolutions[stage]; ++i) {
      x = b.conv2d(fmt::format("{}", module), x, kVggChannels[stage], {.kernel = 3, .padding = 1});
      if (config.batch_norm) x = b.batch_norm(fmt::format("{}", module + 1), x);
      x = b.activation("relu", x, true);
      module += config.batch_norm ? 3 : 2;
    }
    x = b.max_pool2d(x, 2, 2, 0);
    ++module;
  }
  x = b.flatten(b.add("adaptive_avg_pool2d", {x}, {{"output_size", kPooled}}), 1);
  const double dropout = options.dropout.value_or(config.dropout);
  x = b.activation("relu", b.linear("classifier.0", x, config.hidden), true);
  x = b.dropout(x, dropout);
  x = b.activation("relu", b.linear("classifier.3", x, config.hidden), true);
  x = b.dropout(x, dropout);
  add_image_loss(b, b.linear("classifier.6", x, config.classes), options);
  return checked(b.finish());
}

}  // namespace
}  // namespace vgg_detail

std::vector<ModelPreset> vgg_presets() {
  struct Size {
    int layers;
    std::string_view parameters;
    std::string_view with_norm;
    std::vector<std::int64_t> convolutions;
  };
  const std::vector<Size> sizes = {{11, "132.9 M", "132.9 M", {1, 1, 2, 2, 2}},
                                   {13, "133.0 M", "133.1 M", {2, 2, 2, 2, 2}},
                                   {16, "138.4 M", "138.4 M", {2, 2, 3, 3, 3}},
                                   {19, "143.7 M", "143.7 M", {2, 2, 4, 4, 4}}};
  std::vector<ModelPreset> presets;
  for (const bool batch_norm : {false, true}) {
    for (const Size& size : sizes) {
      presets.push_back(make_preset<vgg_detail::VggConfig>(
          fmt::format("vgg{}{}", size.layers, batch_norm ? "_bn" : ""), "vision",
          fmt::format("VGG-{}{}, {} parameters (torchvision)", size.layers,
                      batch_norm ? " with batch norm" : "",
                      batch_norm ? size.with_norm : size.parameters),
          {.convolutions = size.convolutions, .batch_norm = batch_norm}, vgg_detail::decode_vgg,
          vgg_detail::build_vgg));
    }
  }
  return presets;
}

}  // namespace tidemark
