#include "graph/import/hf_config.hpp"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "graph/core/document.hpp"
#include "graph/core/paths.hpp"
#include "graph/models/model_limits.hpp"

namespace tidemark {

namespace hf_config_detail {
namespace {

// Classifiers, reward models and bare models of the same architecture have another head, or none.
void require_language_model(const Decoder& config) {
  const std::vector<std::string> classes = config.list<std::string>("architectures");
  if (classes.empty()) return;
  for (const std::string_view head : {"ForCausalLM", "LMHeadModel", "ForConditionalGeneration"}) {
    if (classes.front().ends_with(head)) return;
  }
  config.fail_at("architectures",
                 fmt::format("{} has another head than the language model that is built of this "
                             "model_type; leave the key out, or write a class that ends in "
                             "ForCausalLM, to simulate that",
                             tidemark::quoted_excerpt(classes.front())));
}

// Says that the weights of a quantised checkpoint are not taken for such.
std::string remark_on_quantisation(const Value& given) {
  const Value* method = given.find("quant_method");
  const std::string kind =
      method != nullptr && method->is_scalar() ? fmt::format(" ({})", excerpt(method->scalar)) : "";
  return fmt::format(
      "the quantization_config{} of the model's file is passed over: weights are quantised by the "
      "policies lora (base) and quantise_weights alone",
      kind);
}

}  // namespace
}  // namespace hf_config_detail

std::span<const HfArchitecture> hf_architectures() {
  static constexpr std::array<HfArchitecture, 25> kArchitectures = {{
      {.model_type = "bert", .build = build_hf_bert, .chooses_class = true},
      {.model_type = "deepseek_v2", .build = build_hf_deepseek},
      {.model_type = "deepseek_v3", .build = build_hf_deepseek},
      {.model_type = "falcon", .build = build_hf_falcon},
      {.model_type = "gemma", .build = build_hf_gemma},
      {.model_type = "gemma2", .build = build_hf_gemma2},
      {.model_type = "gemma3", .build = build_hf_gemma3},
      {.model_type = "gemma3_text", .build = build_hf_gemma3_text},
      {.model_type = "gpt2", .build = build_hf_gpt2},
      {.model_type = "gpt_neox", .build = build_hf_gpt_neox},
      {.model_type = "llama", .build = build_hf_llama},
      {.model_type = "mistral", .build = build_hf_mistral},
      {.model_type = "mixtral", .build = build_hf_mixtral},
      {.model_type = "mpt", .build = build_hf_mpt},
      {.model_type = "nemotron", .build = build_hf_nemotron},
      {.model_type = "opt", .build = build_hf_opt},
      {.model_type = "phi", .build = build_hf_phi},
      {.model_type = "phi3", .build = build_hf_phi3},
      {.model_type = "qwen2", .build = build_hf_qwen2},
      {.model_type = "qwen3", .build = build_hf_qwen3},
      {.model_type = "qwen3_moe", .build = build_hf_qwen3_moe},
      {.model_type = "stablelm", .build = build_hf_stablelm},
      {.model_type = "t5", .build = build_hf_t5, .chooses_class = true},
      {.model_type = "vit", .build = build_hf_vit, .reads_images = true, .chooses_class = true},
      {.model_type = "whisper", .build = build_hf_whisper},
  }};
  return kArchitectures;
}

bool is_hf_config(const Value& document) {
  return document.find("model_type") != nullptr;
}

bool hf_reads_images(const Value& document) {
  const Value* model_type = document.find("model_type");
  if (model_type == nullptr) return false;
  const auto known = hf_architectures();
  return std::any_of(known.begin(), known.end(), [&](const HfArchitecture& architecture) {
    return architecture.reads_images && architecture.model_type == model_type->scalar;
  });
}

Graph import_hf_config(const Decoder& config, const std::string& name,
                       const ModelOptions& options) {
  const auto model_type = config.required<std::string>("model_type");
  std::vector<std::string> known;
  for (const HfArchitecture& architecture : hf_architectures()) {
    if (architecture.model_type == model_type) {
      if (!architecture.chooses_class) hf_config_detail::require_language_model(config);
      Graph graph = architecture.build(config, name, options);
      if (const Value* given = config.value().find("quantization_config");
          given != nullptr && !given->is_null())
        graph.remarks.push_back(hf_config_detail::remark_on_quantisation(*given));
      return graph;
    }
    known.emplace_back(architecture.model_type);
  }
  config.fail_at("model_type",
                 fmt::format("'{}' is no architecture that can be imported; known "
                             "are {}{}",
                             model_type, fmt::join(known, ", "), did_you_mean(model_type, known)));
}

Graph import_hf_config(const std::string& path, const ModelOptions& options) {
  const Value document = read_document(path);
  return import_hf_config(Decoder(document), title_of_file(path), options);
}

std::int64_t hf_labels(const Decoder& config) {
  constexpr std::int64_t kDefaultLabels = 2;  // PretrainedConfig
  if (config.has("id2label")) {
    const auto labels =
        static_cast<std::int64_t>(config.required_child("id2label").entries().size());
    if (labels > 0) return labels;
  }
  return config.optional<std::int64_t>("num_labels", kDefaultLabels, up_to(kMaxVocabulary));
}

void refuse_cross_attention(const Decoder& config) {
  if (!config.optional<bool>("add_cross_attention", false)) return;
  config.fail_at("add_cross_attention",
                 "the attention to an encoder's results is not modelled; write false to simulate "
                 "the model without it");
}

void remark_on_router_loss(const Decoder& config, Graph& graph) {
  // transformers adds load_balancing_loss_func to the loss where this is true.
  if (!config.optional<bool>("output_router_logits", false)) return;
  graph.remarks.emplace_back(
      "output_router_logits of the model's file adds the routers' auxiliary loss in transformers, "
      "which is not simulated: the memory and time of its expert masks are left out");
}

std::string hf_class(const Decoder& config, std::span<const std::string_view> known) {
  const std::vector<std::string> classes = config.list<std::string>("architectures");
  if (classes.empty()) return std::string(known.front());
  for (const std::string_view name : known) {
    if (name == classes.front()) return classes.front();
  }
  const std::vector<std::string> names(known.begin(), known.end());
  config.fail_at("architectures",
                 fmt::format("{} cannot be imported; known for this model_type are {}{}",
                             tidemark::quoted_excerpt(classes.front()), fmt::join(known, ", "),
                             did_you_mean(classes.front(), names)));
}

std::string hf_activation(const Decoder& config, std::string_view key, std::string_view fallback) {
  // transformers/activations.py, ACT2FN. gelu_new is composed of elementwise operators there.
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 9> kNames = {{
      {"gelu", "gelu"},
      {"gelu_new", "new_gelu"},
      {"gelu_fast", "gelu_fast"},
      {"quick_gelu", "quick_gelu"},
      {"tanh", "tanh"},
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
