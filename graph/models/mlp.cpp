// A stack of linear layers with an activation between each two, as one torch.nn.Sequential.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "graph/models/language.hpp"
#include "graph/models/losses.hpp"
#include "graph/models/model_limits.hpp"
#include "graph/models/preset.hpp"

namespace tidemark {

namespace mlp_detail {
namespace {

struct MlpConfig {
  std::vector<std::int64_t> widths = {784, 1024, 1024, 512, 10};  // input, hidden..., classes
  std::string activation = "relu";
  bool in_place = false;  // nn.ReLU(inplace=True)
};

MlpConfig decode_mlp(const Decoder& overrides, MlpConfig config) {
  config.widths =
      overrides.optional_list<std::int64_t>("widths", std::move(config.widths), up_to(kMaxWidth));
  if (config.widths.size() < 2) {
    overrides.fail_at("widths", "expected at least two widths: of the input and of the result");
  }
  if (config.widths.size() > kMaxLayers) {
    overrides.fail_at("widths",
                      fmt::format("{} widths are more than {}", config.widths.size(), kMaxLayers));
  }
  config.activation = overrides.optional_word("activation", activation_names(), config.activation);
  config.in_place = overrides.optional<bool>("in_place", config.in_place);
  if (config.in_place && config.activation != "relu" && config.activation != "silu") {
    overrides.fail_at("in_place", fmt::format("torch has no {} in place; relu and silu have it",
                                              config.activation));
  }
  return config;
}

Graph build_mlp(const MlpConfig& config, const std::string& name, const ModelOptions& options) {
  check_options(options);
  ModelBuilder b(name, options.dtype);
  TensorId x = b.input("samples", {options.micro_batch, config.widths.front()}, options.dtype);
  for (std::size_t i = 1; i < config.widths.size(); ++i) {
    const auto scope = b.block(fmt::format("layers.{}", i - 1));
    x = b.linear("linear", x, config.widths[i]);
    if (i + 1 < config.widths.size()) x = activate(b, config.activation, x, config.in_place);
  }
  b.set_output(x);
  b.set_samples(options.micro_batch, 0);
  add_loss(b, x, options.loss);
  return checked(b.finish());
}

}  // namespace
}  // namespace mlp_detail

std::vector<ModelPreset> mlp_presets() {
  return {make_preset<mlp_detail::MlpConfig>("mlp", "basic",
                                             "linear layers with an activation between each two",
                                             {}, mlp_detail::decode_mlp, mlp_detail::build_mlp)};
}

}  // namespace tidemark
