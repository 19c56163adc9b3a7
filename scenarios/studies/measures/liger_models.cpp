#include "scenarios/studies/measures/liger_models.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "graph/core/document.hpp"

namespace tidemark {
namespace liger_models_detail {
namespace {

// Types as in a config.json; presets begin with them but for their hyphens.
constexpr std::array<std::string_view, 10> kTypes{"gemma",   "gemma2",  "gemma3_text", "llama",
                                                  "mistral", "mixtral", "phi3",        "qwen2",
                                                  "qwen3",   "gemma3"};
constexpr std::array<std::string_view, 9> kPresets{
    "gemma-", "llama", "mistral-", "mixtral-", "phi-3", "phi-4", "qwen2", "qwen3", "gemma2"};

}  // namespace
}  // namespace liger_models_detail

bool liger_patches(const ModelReference& model) {
  using liger_models_detail::kPresets;
  using liger_models_detail::kTypes;
  if (model.kind == ModelKind::kPreset) {
    return std::any_of(kPresets.begin(), kPresets.end(),
                       [&](std::string_view start) { return model.name.starts_with(start); });
  }
  if (model.kind != ModelKind::kHuggingFace) return false;
  const Value config = read_document(model.name);
  const Value* type = config.find("model_type");
  return type != nullptr && std::find(kTypes.begin(), kTypes.end(), type->scalar) != kTypes.end();
}

}  // namespace tidemark
