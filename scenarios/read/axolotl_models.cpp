#include "scenarios/read/axolotl_models.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include "graph/core/document.hpp"

namespace tidemark {
namespace axolotl_models_detail {
namespace {

// Types of models, and beginnings of presets' names, whose embeddings are "wte".
constexpr auto kOtherNames =
    std::to_array<std::string_view>({"gpt2", "gpt_bigcode", "gptj", "gpt_neo", "codegen", "mpt"});

bool has_other_names(std::string_view type) {
  return std::find(kOtherNames.begin(), kOtherNames.end(), type) != kOtherNames.end();
}

// Names of presets have hyphens where types have underscores or nothing: "gpt-j-6b" is "gptj".
bool preset_has_other_names(std::string_view name) {
  const auto begins_with = [&](std::string_view type) {
    std::size_t at = 0;
    for (const char letter : type) {
      if (letter == '_') continue;
      if (at > 0 && at < name.size() && name[at] == '-') ++at;
      if (at == name.size() || name[at++] != letter) return false;
    }
    return at == name.size() || name[at] == '-';
  };
  return name == "gpt" || std::any_of(kOtherNames.begin(), kOtherNames.end(), begins_with);
}

bool config_has_other_names(const std::string& path) {
  const Value config = read_document(path);
  const Value* type = config.find("model_type");
  return type != nullptr && has_other_names(type->scalar);
}

}  // namespace
}  // namespace axolotl_models_detail

bool axolotl_narrows_rest(const ModelReference& model) {
  if (model.kind == ModelKind::kHuggingFace)
    return !axolotl_models_detail::config_has_other_names(model.name);
  return model.kind != ModelKind::kPreset ||
         !axolotl_models_detail::preset_has_other_names(model.name);
}

bool axolotl_narrows_rest(const Value& model) {
  const Value* preset = model.is_scalar() ? &model : model.find("preset");
  if (preset != nullptr) return !axolotl_models_detail::preset_has_other_names(preset->scalar);
  const Value* path = model.find("hf");
  return path == nullptr || !axolotl_models_detail::config_has_other_names(path->scalar);
}

}  // namespace tidemark
