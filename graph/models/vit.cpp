#include "graph/models/vit.hpp"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "graph/core/errors.hpp"
#include "graph/models/language.hpp"
#include "graph/models/losses.hpp"
#include "graph/models/model_limits.hpp"
#include "graph/models/preset.hpp"
#include "graph/models/torch_modules.hpp"

namespace tidemark {

namespace vit_detail {
namespace {

struct VitNames {
  std::string_view patches, token, positions, block, norm_before, norm_after, norm, head;
};
constexpr VitNames kTorchvisionNames = {"conv_proj",
                                        "class_token",
                                        "encoder.pos_embedding",
                                        "encoder.layers.encoder_layer_",
                                        "ln_1",
                                        "ln_2",
                                        "encoder.ln",
                                        "heads.head"};
constexpr VitNames kHuggingFaceNames = {"embeddings.patch_embeddings.projection",
                                        "embeddings.cls_token",
                                        "embeddings.position_embeddings",
                                        "encoder.layer.",
                                        "layernorm_before",
                                        "layernorm_after",
                                        "layernorm",
                                        "classifier"};

class VitBuilder {
 public:
  VitBuilder(const VitConfig& config, const std::string& name, const ModelOptions& options)
      : config_(config),
        options_(options),
        names_(config.code == VitCode::kTorchvision ? kTorchvisionNames : kHuggingFaceNames),
        builder_(name, options.dtype) {}

  Graph build() {
    ModelBuilder& b = builder_;
    const std::int64_t side = image_side();
    const std::int64_t patches = (side / config_.patch) * (side / config_.patch);
    const std::int64_t batch = options_.micro_batch;
    check_transformer_size({.batch = batch,
                            .sequence = patches + 1,
                            .heads = config_.heads,
                            .ffn = config_.ffn,
                            .vocab = config_.classes});
    const TensorId images =
        b.input("images", {batch, config_.channels, side, side}, options_.dtype);
    const bool torchvision = config_.code == VitCode::kTorchvision;
    const auto add_positions = [&] {
      return b.parameter(names_.positions, {1, patches + 1, config_.width});
    };
    // The order of model.parameters(): torchvision's positions belong to the encoder.
    const TensorId token = b.parameter(names_.token, {1, 1, config_.width});
    TensorId positions = torchvision ? TensorId() : add_positions();
    TensorId x = b.conv2d(names_.patches, images, config_.width,
                          {.kernel = config_.patch, .stride = config_.patch});
    if (torchvision) positions = add_positions();
    // flatten(2).transpose(1, 2), class token in front
    x = b.transpose(b.view(x, {batch, config_.width, patches}), 1, 2);
    x = encoder(b.cat({b.expand(token, {batch, 1, config_.width}), x}, 1), positions);
    x = b.add(
        "narrow", {x},
        {{"axis", std::int64_t{1}}, {"length", std::int64_t{1}}, {"drop_axis", std::int64_t{1}}});
    x = b.linear(names_.head, x, config_.classes);
    b.set_output(x);
    b.set_samples(batch, 0);
    add_loss(b, x, options_.loss);
    return checked(b.finish());
  }

 private:
  // torchvision's caller keeps the encoder's input, x, until the encoder has returned.
  TensorId encoder(TensorId x, TensorId positions) {
    ModelBuilder& b = builder_;
    auto frame = b.frame();
    if (config_.code == VitCode::kTorchvision) frame.local(x);
    x = b.dropout(b.add_tensors(x, positions), dropout());
    for (std::int64_t i = 0; i < config_.layers; ++i)
      x = block(i, x);
    return b.layer_norm(names_.norm, x);
  }

  // Hugging Face's model refuses images of another size than its positions; torchvision's is built
  // for the size.
  [[nodiscard]] std::int64_t image_side() const {
    const std::int64_t side = options_.image.value_or(config_.image);
    const bool fixed = config_.code == VitCode::kHuggingFace;
    if (fixed && side != config_.image) {
      throw UserError({}, "training.image",
                      fmt::format("the model has learned positions for images of {} pixels, not {}",
                                  config_.image, side));
    }
    if (side % config_.patch != 0) {
      throw UserError({}, "training.image",
                      fmt::format("patches of {} pixels do not tile an image of {}; the nearest "
                                  "sizes that they do are {} and {}",
                                  config_.patch, side,
                                  std::max(side / config_.patch, std::int64_t{1}) * config_.patch,
                                  (side / config_.patch + 1) * config_.patch));
    }
    return side;
  }

  [[nodiscard]] double dropout() const { return options_.dropout.value_or(config_.dropout); }
  [[nodiscard]] double attention_dropout() const {
    return options_.dropout.value_or(config_.attention_dropout);
  }

  // x + dropout(attn(norm(x))), then y + mlp(norm(y))
  TensorId block(std::int64_t index, TensorId x) {
    ModelBuilder& b = builder_;
    auto scope = b.block(fmt::format("{}{}", names_.block, index));
    scope.local(x);
    TensorId y = b.layer_norm(names_.norm_before, x);
    y = config_.code == VitCode::kTorchvision
            ? torch_multihead_attention(b, "self_attention", y,
                                        {.heads = config_.heads,
                                         .dropout = attention_dropout(),
                                         .kind = options_.attention})
            : attention(y);
    x = b.add_tensors(b.dropout(y, dropout()), x);
    return b.add_tensors(x, feed_forward(b.layer_norm(names_.norm_after, x)));
  }

  TensorId attention(TensorId x) {
    ModelBuilder& b = builder_;
    auto scope = b.scope("attention");
    scope.local(x);
    std::array<TensorId, 3> heads;
    constexpr std::array<std::string_view, 3> kModules = {"attention.query", "attention.key",
                                                          "attention.value"};
    for (std::size_t i = 0; i < heads.size(); ++i) {
      const TensorId y = b.linear(kModules[i], x, config_.width, config_.attention_bias);
      heads[i] = split_heads(b, y, config_.heads);
      scope.local(heads[i]);
    }
    const TensorId y = hf_attention(b, heads[0], heads[1], heads[2],
                                    {.kind = options_.attention, .dropout = attention_dropout()});
    return b.linear("output.dense", merge_heads(b, y), config_.width);
  }

  TensorId feed_forward(TensorId x) {
    ModelBuilder& b = builder_;
    const bool torchvision = config_.code == VitCode::kTorchvision;
    x = b.linear(torchvision ? "mlp.0" : "intermediate.dense", x, config_.ffn);
    x = activate(b, config_.activation, x);
    if (torchvision) x = b.dropout(x, dropout());
    x = b.linear(torchvision ? "mlp.3" : "output.dense", x, config_.width);
    return b.dropout(x, dropout());
  }

  const VitConfig& config_;
  const ModelOptions& options_;
  const VitNames& names_;
  ModelBuilder builder_;
};

VitConfig torchvision(std::int64_t layers, std::int64_t width, std::int64_t heads, std::int64_t ffn,
                      std::int64_t patch) {
  return {.layers = layers,
          .width = width,
          .heads = heads,
          .ffn = ffn,
          .image = 224,
          .patch = patch,
          .classes = 1000};
}

}  // namespace
}  // namespace vit_detail

VitConfig decode_vit(const Decoder& overrides, VitConfig defaults) {
  const Decoder& d = overrides;
  VitConfig config = std::move(defaults);
  config.layers = d.optional<std::int64_t>("layers", config.layers, up_to(kMaxLayers));
  config.width = d.optional<std::int64_t>("width", config.width, up_to(kMaxWidth));
  config.heads = d.optional<std::int64_t>("heads", config.heads, up_to(kMaxHeads));
  config.ffn = d.optional<std::int64_t>("ffn", config.ffn, up_to(kMaxWidth));
  config.image = d.optional<std::int64_t>("image", config.image, up_to(kMaxImage));
  config.patch = d.optional<std::int64_t>("patch", config.patch, up_to(kMaxImage));
  config.channels = d.optional<std::int64_t>("channels", config.channels, up_to(kMaxWidth));
  config.classes = d.optional<std::int64_t>("classes", config.classes, up_to(kMaxVocabulary));
  config.activation = d.optional_word("activation", activation_names(), config.activation);
  if (const auto dropout = d.maybe<double>("dropout", between(0, 1))) {
    config.dropout = *dropout;
    config.attention_dropout = *dropout;
  }
  check_vit(d, {.heads = "heads", .patch = "patch"}, config);
  return config;
}

void check_vit(const Decoder& config, const VitKeys& keys, const VitConfig& vit) {
  require_divides(config, keys.heads, vit.heads, "heads", vit.width,
                  fmt::format("a width of {}", vit.width));
  require_divides(config, keys.patch, vit.patch, "pixels per patch", vit.image,
                  fmt::format("an image of {}", vit.image));
}

Graph build_vit(const VitConfig& config, const std::string& name, const ModelOptions& options) {
  check_options(options);
  return vit_detail::VitBuilder(config, name, options).build();
}

std::vector<ModelPreset> vit_presets() {
  const auto preset = [](std::string name, std::string summary, VitConfig config) {
    ModelPreset vit = make_preset<VitConfig>(std::move(name), "vision", std::move(summary),
                                             std::move(config), decode_vit, build_vit);
    vit.attends = true;
    return vit;
  };
  return {
      preset("vit", "a vision transformer as torchvision writes it, with free sizes", {}),
      preset("vit_b_16", "ViT-B/16, 86.6 M parameters (torchvision)",
             vit_detail::torchvision(12, 768, 12, 3072, 16)),
      preset("vit_b_32", "ViT-B/32, 88.2 M parameters (torchvision)",
             vit_detail::torchvision(12, 768, 12, 3072, 32)),
      preset("vit_l_16", "ViT-L/16, 304 M parameters (torchvision)",
             vit_detail::torchvision(24, 1024, 16, 4096, 16)),
      preset("vit_l_32", "ViT-L/32, 307 M parameters (torchvision)",
             vit_detail::torchvision(24, 1024, 16, 4096, 32)),
      preset("vit_h_14", "ViT-H/14, 632 M parameters (torchvision)",
             vit_detail::torchvision(32, 1280, 16, 5120, 14)),
  };
}

}  // namespace tidemark
