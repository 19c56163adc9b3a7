// Models by name: architectures with free sizes (gpt, llama, mlp, resnet50) and published models
// whose sizes are data (gpt2-xl, llama-3-8b). Every parameter can be overridden:
//   model: {preset: gpt2, layers: 24}
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/core/decoder.hpp"
#include "graph/core/errors.hpp"
#include "graph/ir/graph.hpp"
#include "graph/models/model_options.hpp"

namespace tidemark {

struct ModelPreset {
  std::string name;
  std::string_view group;  // "language", "vision", "basic"
  std::string summary;     // one line for `tidemark list models`
  bool attends = false;    // training.attention applies
  // Reads and checks the parameters; every key that is none of them is an error, except for those
  // that the caller has read before (`preset`).
  std::function<void(const Decoder&)> decode;
  // Decodes the parameters and builds the forward graph with its loss. Throws UserError.
  std::function<Graph(const Decoder& overrides, const ModelOptions&)> build;
};

// Returns all presets, sorted by group, then in the order of the architectures' files.
[[nodiscard]] const std::vector<ModelPreset>& all_presets();
// Finds a preset by its name. Throws UserError at `where` with the nearest name.
[[nodiscard]] const ModelPreset& find_preset(std::string_view name, const Location& where = {},
                                             const std::string& path = {});
[[nodiscard]] bool is_preset(std::string_view name);
// Lists the parameters of a preset for `tidemark describe`.
[[nodiscard]] std::vector<ParameterNote> parameters_of(const ModelPreset& preset);

// Makes a preset of a configuration, a function that reads overrides of it and one that builds it.
template <class Config>
[[nodiscard]] ModelPreset make_preset(std::string name, std::string_view group, std::string summary,
                                      Config config, Config (*decode)(const Decoder&, Config),
                                      Graph (*build)(const Config&, const std::string&,
                                                     const ModelOptions&)) {
  ModelPreset preset{.name = name, .group = group, .summary = std::move(summary)};
  preset.attends = group == "language";
  preset.decode = [config, decode](const Decoder& overrides) {
    static_cast<void>(decode(overrides, config));
    overrides.finish();
  };
  preset.build = [config, decode, build, name](const Decoder& overrides,
                                               const ModelOptions& options) {
    const Config chosen = decode(overrides, config);
    overrides.finish();
    return build(chosen, name, options);
  };
  return preset;
}

// The presets of each architecture's file.
[[nodiscard]] std::vector<ModelPreset> bert_presets();
[[nodiscard]] std::vector<ModelPreset> decoder_presets();
[[nodiscard]] std::vector<ModelPreset> deepseek_presets();
[[nodiscard]] std::vector<ModelPreset> densenet_presets();
[[nodiscard]] std::vector<ModelPreset> gpt_presets();
[[nodiscard]] std::vector<ModelPreset> llama_presets();
[[nodiscard]] std::vector<ModelPreset> lstm_presets();
[[nodiscard]] std::vector<ModelPreset> mlp_presets();
[[nodiscard]] std::vector<ModelPreset> mobilenet_presets();
[[nodiscard]] std::vector<ModelPreset> convnext_presets();
[[nodiscard]] std::vector<ModelPreset> efficientnet_presets();
[[nodiscard]] std::vector<ModelPreset> regnet_presets();
[[nodiscard]] std::vector<ModelPreset> resnet_presets();
[[nodiscard]] std::vector<ModelPreset> swin_presets();
[[nodiscard]] std::vector<ModelPreset> t5_presets();
[[nodiscard]] std::vector<ModelPreset> torch_encoder_presets();
[[nodiscard]] std::vector<ModelPreset> unet_presets();
[[nodiscard]] std::vector<ModelPreset> vgg_presets();
[[nodiscard]] std::vector<ModelPreset> vit_presets();
[[nodiscard]] std::vector<ModelPreset> whisper_presets();

}  // namespace tidemark
