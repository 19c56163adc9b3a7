// Swin Transformers (Liu et al. 2021), module by module as torchvision.models.swin_transformer.
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "graph/models/image_classifier.hpp"
#include "graph/models/model_limits.hpp"
#include "graph/models/preset.hpp"
#include "graph/models/routing.hpp"

namespace tidemark {
namespace swin_detail {
namespace {

constexpr std::size_t kStages = 4;

struct SwinConfig {
  std::int64_t width = 96;
  std::vector<std::int64_t> blocks = {2, 2, 6, 2};
  std::vector<std::int64_t> heads = {3, 6, 12, 24};
  std::int64_t window = 7;  // patches per side of a window of attention
  std::int64_t patch = 4;   // pixels per side
  double stochastic_depth = 0.2;
  std::int64_t classes = 1000;
  std::int64_t image = 224;
};

SwinConfig decode_swin(const Decoder& overrides, SwinConfig config) {
  const Decoder& d = overrides;
  config.width = d.optional<std::int64_t>("width", config.width, up_to(kMaxWidth / 64));
  config.blocks = d.optional_list<std::int64_t>("blocks", std::move(config.blocks), up_to(1024));
  config.heads = d.optional_list<std::int64_t>("heads", std::move(config.heads), up_to(kMaxHeads));
  config.window = d.optional<std::int64_t>("window", config.window, up_to(64));
  config.stochastic_depth =
      d.optional<double>("stochastic_depth", config.stochastic_depth, between(0, 1));
  config.classes = d.optional<std::int64_t>("classes", config.classes, up_to(kMaxVocabulary));
  config.image = d.optional<std::int64_t>("image", config.image, up_to(kMaxImage));
  for (const std::string_view key : {"blocks", "heads"}) {
    const std::size_t found = key == "blocks" ? config.blocks.size() : config.heads.size();
    if (found != kStages) d.fail_at(key, fmt::format("expected 4 stages, found {}", found));
  }
  std::int64_t width = config.width;
  for (const std::int64_t heads : config.heads) {
    require_divides(d, "heads", heads, "heads", width, fmt::format("a width of {}", width));
    width *= 2;
  }
  return config;
}

class SwinBuilder {
 public:
  SwinBuilder(const SwinConfig& config, const std::string& name, const ModelOptions& options)
      : config_(config), options_(options), builder_(name, options.dtype) {}

  Graph build() {
    ModelBuilder& b = builder_;
    check_image();
    TensorId x = image_input(b, options_, config_.image);
    x = b.conv2d("features.0.0", x, config_.width,
                 {.kernel = config_.patch, .stride = config_.patch});
    x = b.layer_norm("features.0.2", permute(x, {0, 2, 3, 1}));
    for (std::size_t stage = 0; stage < kStages; ++stage) {
      for (std::int64_t i = 0; i < config_.blocks[stage]; ++i) {
        x = block(fmt::format("features.{}.{}", 2 * stage + 1, i), x, config_.heads[stage],
                  i % 2 == 1);
      }
      if (stage + 1 < kStages) x = merge_patches(fmt::format("features.{}", 2 * stage + 2), x);
    }
    x = permute(b.layer_norm("norm", x), {0, 3, 1, 2});
    x = b.linear("head", b.flatten(b.global_avg_pool2d(x), 1), config_.classes);
    add_image_loss(b, x, options_);
    return checked(b.finish());
  }

 private:
  void check_image() const {
    const std::int64_t side = options_.image.value_or(config_.image);
    if (side >= 8 * config_.patch) return;
    throw UserError(
        {}, "training.image",
        fmt::format("three stages halve the {} x {} patches of an image of {} pixels; "
                    "the smallest that they do is {}",
                    side / config_.patch, side / config_.patch, side, 8 * config_.patch));
  }

  TensorId permute(TensorId x, std::vector<std::int64_t> axes) {
    return builder_.add("permute", {x}, {{"axes", std::move(axes)}});
  }

  TensorId padded(TensorId x, std::int64_t rows, std::int64_t columns) {
    return builder_.add("pad", {x},
                        {{"pads", std::vector<std::int64_t>{0, 0, 0, columns, 0, rows}},
                         {"mode", std::string("constant")}});
  }

  TensorId narrowed(TensorId x, int axis, std::int64_t length) {
    return builder_.add("narrow", {x}, {{"axis", std::int64_t{axis}}, {"length", length}});
  }

  // cat of every second pixel in four ways, norm, reduction
  TensorId merge_patches(const std::string& module, TensorId x) {
    ModelBuilder& b = builder_;
    auto scope = b.scope(module);
    const Shape shape = b.shape(x);
    const std::int64_t width = shape[3];
    x = padded(x, shape[1] % 2, shape[2] % 2);
    const std::int64_t rows = b.shape(x)[1] / 2;
    const std::int64_t columns = b.shape(x)[2] / 2;
    // x[:, r::2, c::2, :] are views of x; their concatenation is a copy in another order.
    x = b.view(x, {shape[0], rows, 2, columns, 2, width});
    x = b.reshape(permute(x, {0, 1, 3, 4, 2, 5}), {shape[0], rows, columns, 4 * width});
    return b.linear("reduction", b.layer_norm("norm", x), 2 * width, false);
  }

  // x = x + stochastic_depth(attn(norm1(x))); x = x + stochastic_depth(mlp(norm2(x)))
  TensorId block(const std::string& module, TensorId x, std::int64_t heads, bool shifts) {
    ModelBuilder& b = builder_;
    const auto scope = b.block(module);
    const double p = next_probability();
    TensorId y = attention(b.layer_norm("norm1", x), heads, shifts);
    x = b.add_tensors(x, b.add("stochastic_depth", {y}, {{"p", p}}));
    const std::int64_t width = b.shape(x)[3];
    y = b.linear("mlp.0", b.layer_norm("norm2", x), 4 * width);
    y = b.linear("mlp.3", b.activation("gelu", y), width);
    return b.add_tensors(x, b.add("stochastic_depth", {y}, {{"p", p}}));
  }

  double next_probability() {
    std::int64_t all = 0;
    for (const std::int64_t blocks : config_.blocks)
      all += blocks;
    if (all == 1) return 0;
    return config_.stochastic_depth * static_cast<double>(built_++) / static_cast<double>(all - 1);
  }

  // table[index].view(n, n, heads).permute(2, 0, 1).contiguous().unsqueeze(0)
  TensorId position_bias(std::int64_t heads) {
    ModelBuilder& b = builder_;
    const std::int64_t span = 2 * config_.window - 1;
    const std::int64_t pixels = config_.window * config_.window;
    const TensorId table = b.parameter("relative_position_bias_table", {span * span, heads});
    const TensorId index = b.buffer("relative_position_index", {pixels * pixels}, DType::kInt64);
    const TensorId rows = b.add_many(index_family(), {table, index}, {}).front();
    const TensorId bias = b.contiguous(permute(b.view(rows, {pixels, pixels, heads}), {2, 0, 1}));
    return b.view(bias, {1, heads, pixels, pixels});
  }

  // Attention among the pixels of each window; every second block shifts the windows by half.
  TensorId attention(TensorId input, std::int64_t heads, bool shifts) {
    ModelBuilder& b = builder_;
    auto scope = b.scope("attn");
    scope.local(input);
    const TensorId bias = position_bias(heads);
    const Shape shape = b.shape(input);
    const std::int64_t side = config_.window;
    const std::int64_t width = shape[3];
    TensorId x = padded(input, (side - shape[1] % side) % side, (side - shape[2] % side) % side);
    const Shape whole = b.shape(x);
    // A window that is the whole image has nothing to shift.
    const bool moves = shifts && (side < whole[1] || side < whole[2]);
    if (moves) x = b.add("roll", {x});
    const std::int64_t down = whole[1] / side;
    const std::int64_t across = whole[2] / side;
    const std::int64_t windows = shape[0] * down * across;
    const std::int64_t pixels = side * side;
    x = b.view(x, {shape[0], down, side, across, side, width});
    x = b.reshape(permute(x, {0, 1, 3, 2, 4, 5}), {windows, pixels, width});
    const TensorId qkv = permute(
        b.reshape(b.linear("qkv", x, 3 * width), {windows, pixels, 3, heads, width / heads}),
        {2, 0, 3, 1, 4});
    const auto part = [&](std::int64_t i) {
      return b.add("narrow", {qkv},
                   {{"axis", std::int64_t{0}},
                    {"start", i},
                    {"length", std::int64_t{1}},
                    {"drop_axis", std::int64_t{1}}});
    };
    const TensorId q = b.scale(part(0));
    const TensorId k = part(1);
    const TensorId v = part(2);
    for (const TensorId variable : {q, k, v})
      scope.local(variable);
    TensorId scores = b.add_tensors(b.matmul(q, b.transpose(k, -2, -1)), bias);
    if (moves) scores = masked(scores, shape[0], down * across, heads, pixels);
    TensorId y = b.matmul(b.softmax(scores), v);
    y = b.reshape(b.transpose(y, 1, 2), {windows, pixels, width});
    y = b.linear("proj", y, width);
    y = permute(b.view(y, {shape[0], down, across, side, side, width}), {0, 1, 3, 2, 4, 5});
    y = b.reshape(y, {shape[0], whole[1], whole[2], width});
    if (moves) y = b.add("roll", {y});
    return b.contiguous(narrowed(narrowed(y, 1, shape[1]), 2, shape[2]));
  }

  // Pixels that a shift has brought together do not attend to each other.
  TensorId masked(TensorId scores, std::int64_t batch, std::int64_t windows, std::int64_t heads,
                  std::int64_t pixels) {
    ModelBuilder& b = builder_;
    const TensorId mask =
        b.add("zeros", {},
              {{"shape", std::vector<std::int64_t>{1, windows, 1, pixels, pixels}},
               {"dtype", std::string(name_of(b.dtype()))}});
    const TensorId sum =
        b.add_tensors(b.view(scores, {batch, windows, heads, pixels, pixels}), mask);
    return b.view(sum, {batch * windows, heads, pixels, pixels});
  }

  const SwinConfig& config_;
  const ModelOptions& options_;
  ModelBuilder builder_;
  std::int64_t built_ = 0;
};

Graph build_swin(const SwinConfig& config, const std::string& name, const ModelOptions& options) {
  check_options(options);
  return SwinBuilder(config, name, options).build();
}

}  // namespace
}  // namespace swin_detail

std::vector<ModelPreset> swin_presets() {
  const auto preset = [](std::string name, std::string summary, swin_detail::SwinConfig config) {
    return make_preset<swin_detail::SwinConfig>(std::move(name), "vision", std::move(summary),
                                                std::move(config), swin_detail::decode_swin,
                                                swin_detail::build_swin);
  };
  return {
      preset("swin_t", "Swin-T, 28.3 M parameters (torchvision)", {}),
      preset("swin_s", "Swin-S, 49.6 M parameters (torchvision)",
             {.blocks = {2, 2, 18, 2}, .stochastic_depth = 0.3}),
      preset("swin_b", "Swin-B, 87.8 M parameters (torchvision)",
             {.width = 128,
              .blocks = {2, 2, 18, 2},
              .heads = {4, 8, 16, 32},
              .stochastic_depth = 0.5}),
  };
}

}  // namespace tidemark
