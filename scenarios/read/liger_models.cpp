#include "scenarios/read/liger_models.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "graph/core/document.hpp"

namespace tidemark {
namespace liger_models_detail {
namespace {

constexpr std::array<std::string_view, 10> kTypes{"gemma",   "gemma2",  "gemma3_text", "llama",
                                                  "mistral", "mixtral", "phi3",        "qwen2",
                                                  "qwen3",   "gemma3"};
// Presets by how their names begin, the longer ones first.
constexpr auto kPresets =
    std::to_array<std::pair<std::string_view, std::string_view>>({{"gemma-2-", "gemma2"},
                                                                  {"gemma-3-", "gemma3_text"},
                                                                  {"gemma-", "gemma"},
                                                                  {"llama", "llama"},
                                                                  {"mistral-", "mistral"},
                                                                  {"mixtral-", "mixtral"},
                                                                  {"phi-3", "phi3"},
                                                                  {"phi-4", "phi3"},
                                                                  {"qwen2", "qwen2"},
                                                                  {"qwen3", "qwen3"}});

std::string type_of_preset(const std::string& name) {
  for (const auto& [start, type] : kPresets) {
    if (name.starts_with(start)) return std::string(type);
  }
  return {};
}

std::string type_of_config(const std::string& path) {
  const Value config = read_document(path);
  const Value* type = config.find("model_type");
  const bool known =
      type != nullptr && std::find(kTypes.begin(), kTypes.end(), type->scalar) != kTypes.end();
  return known ? type->scalar : std::string();
}

}  // namespace
}  // namespace liger_models_detail

std::string liger_type(const ModelReference& model) {
  if (model.kind == ModelKind::kPreset) return liger_models_detail::type_of_preset(model.name);
  if (model.kind != ModelKind::kHuggingFace) return {};
  return liger_models_detail::type_of_config(model.name);
}

std::string liger_type(const Value& model) {
  if (model.is_scalar()) return liger_models_detail::type_of_preset(model.scalar);
  if (const Value* preset = model.find("preset"))
    return liger_models_detail::type_of_preset(preset->scalar);
  const Value* path = model.find("hf");
  return path == nullptr ? std::string() : liger_models_detail::type_of_config(path->scalar);
}

bool liger_leaves_head_norms(const std::string& type) {
  return type == "qwen3";
}

}  // namespace tidemark
