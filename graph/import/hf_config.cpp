#include "graph/import/hf_config.hpp"

#include <array>
#include <filesystem>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "graph/core/document.hpp"

namespace tidemark {

namespace {

// "llama-3-8b" for llama-3-8b.json and for llama-3-8b/config.json.
std::string model_name(const std::string& path) {
  const std::filesystem::path file(path);
  const std::string stem = file.stem().string();
  const std::string folder = file.parent_path().filename().string();
  return stem == "config" && !folder.empty() ? folder : stem;
}

}  // namespace

std::span<const HfArchitecture> hf_architectures() {
  static constexpr std::array<HfArchitecture, 2> kArchitectures = {{
      {.model_type = "gpt2", .build = build_hf_gpt2},
      {.model_type = "llama", .build = build_hf_llama},
  }};
  return kArchitectures;
}

bool is_hf_config(const Value& document) {
  return document.find("model_type") != nullptr;
}

Graph import_hf_config(const Decoder& config, const std::string& name,
                       const ModelOptions& options) {
  const auto model_type = config.required<std::string>("model_type");
  std::vector<std::string> known;
  for (const HfArchitecture& architecture : hf_architectures()) {
    if (architecture.model_type == model_type) return architecture.build(config, name, options);
    known.emplace_back(architecture.model_type);
  }
  config.fail_at("model_type",
                 fmt::format("'{}' is no architecture that can be imported; known "
                             "are {}{}",
                             model_type, fmt::join(known, ", "), did_you_mean(model_type, known)));
}

Graph import_hf_config(const std::string& path, const ModelOptions& options) {
  const Value document = read_document(path);
  return import_hf_config(Decoder(document), model_name(path), options);
}

std::string hf_activation(const Decoder& config, std::string_view key, std::string_view fallback) {
  // transformers/activations.py, ACT2FN. gelu_new is composed of elementwise operators there.
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kNames = {{
      {"gelu", "gelu"},
      {"gelu_new", "new_gelu"},
      {"gelu_pytorch_tanh", "gelu_tanh"},
      {"relu", "relu"},
      {"silu", "silu"},
      {"swish", "silu"},
  }};
  std::vector<std::string_view> words;
  words.reserve(kNames.size());
  for (const auto& [name, ours] : kNames)
    words.push_back(name);
  std::string chosen = config.optional_word(key, words, fallback);
  for (const auto& [name, ours] : kNames) {
    if (name == chosen) return std::string(ours);
  }
  return chosen;
}

}  // namespace tidemark
