#include "graph/models/preset.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include <fmt/format.h>

namespace tidemark {

namespace preset_detail {
namespace {

std::vector<ModelPreset> presets_of_all_families() {
  std::vector<ModelPreset> presets;
  for (std::vector<ModelPreset> family :
       {mlp_presets(),      gpt_presets(),           llama_presets(),     decoder_presets(),
        deepseek_presets(), torch_encoder_presets(), bert_presets(),      t5_presets(),
        whisper_presets(),  lstm_presets(),          resnet_presets(),    regnet_presets(),
        vgg_presets(),      densenet_presets(),      mobilenet_presets(), efficientnet_presets(),
        convnext_presets(), vit_presets(),           swin_presets(),      unet_presets()}) {
    std::move(family.begin(), family.end(), std::back_inserter(presets));
  }
  return presets;
}

}  // namespace
}  // namespace preset_detail

const std::vector<ModelPreset>& all_presets() {
  static const std::vector<ModelPreset> presets = preset_detail::presets_of_all_families();
  return presets;
}

const ModelPreset& find_preset(std::string_view name, const Location& where,
                               const std::string& path) {
  std::vector<std::string> names;
  for (const ModelPreset& preset : all_presets()) {
    if (preset.name == name) return preset;
    names.push_back(preset.name);
  }
  std::string hint = did_you_mean(name, names);
  if (hint.empty()) hint = fmt::format("; known are {}", fmt::join(names, ", "));
  throw UserError(where, path, fmt::format("no model is called '{}'{}", name, hint));
}

bool is_preset(std::string_view name) {
  const std::vector<ModelPreset>& presets = all_presets();
  return std::any_of(presets.begin(), presets.end(),
                     [&](const ModelPreset& preset) { return preset.name == name; });
}

std::vector<ParameterNote> parameters_of(const ModelPreset& preset) {
  std::vector<ParameterNote> notes;
  preset.decode(Decoder::describing(notes));
  return notes;
}

}  // namespace tidemark
