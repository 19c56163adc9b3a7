// Reads config.json of Hugging Face transformers. Only the architecture is read: weights, dtype and
// generation settings do not matter here, and keys that are not known are ignored. A
// quantization_config is remarked on (Graph::remarks).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "graph/core/decoder.hpp"
#include "graph/ir/graph.hpp"
#include "graph/models/decoders/llama.hpp"
#include "graph/models/model_options.hpp"

namespace tidemark {

// Returns the forward graph of the config file at `path`, named after the file or its folder.
// Throws UserError: unknown model_type, missing keys, sizes that do not fit together.
[[nodiscard]] Graph import_hf_config(const std::string& path, const ModelOptions& options);
// Returns the forward graph of a config that has been read already.
[[nodiscard]] Graph import_hf_config(const Decoder& config, const std::string& name,
                                     const ModelOptions& options);
// Whether a document looks like a Hugging Face config: it has a model_type.
[[nodiscard]] bool is_hf_config(const Value& document);

// Whether the config is of a model of images rather than of text.
[[nodiscard]] bool hf_reads_images(const Value& document);

// One architecture. To add another, write a file with such a function and a line in hf_config.cpp.
struct HfArchitecture {
  std::string_view model_type;
  Graph (*build)(const Decoder& config, const std::string& name, const ModelOptions& options);
  bool reads_images = false;
  bool chooses_class = false;  // builds several classes, by hf_class(); otherwise a language model
};
[[nodiscard]] std::span<const HfArchitecture> hf_architectures();

[[nodiscard]] Graph build_hf_bert(const Decoder& config, const std::string& name,
                                  const ModelOptions& options);
[[nodiscard]] Graph build_hf_gpt2(const Decoder& config, const std::string& name,
                                  const ModelOptions& options);
[[nodiscard]] Graph build_hf_gpt_neox(const Decoder& config, const std::string& name,
                                      const ModelOptions& options);
[[nodiscard]] Graph build_hf_llama(const Decoder& config, const std::string& name,
                                   const ModelOptions& options);
[[nodiscard]] Graph build_hf_mistral(const Decoder& config, const std::string& name,
                                     const ModelOptions& options);
[[nodiscard]] Graph build_hf_mixtral(const Decoder& config, const std::string& name,
                                     const ModelOptions& options);
[[nodiscard]] Graph build_hf_opt(const Decoder& config, const std::string& name,
                                 const ModelOptions& options);
[[nodiscard]] Graph build_hf_qwen2(const Decoder& config, const std::string& name,
                                   const ModelOptions& options);
[[nodiscard]] Graph build_hf_t5(const Decoder& config, const std::string& name,
                                const ModelOptions& options);
[[nodiscard]] Graph build_hf_deepseek(const Decoder& config, const std::string& name,
                                      const ModelOptions& options);
[[nodiscard]] Graph build_hf_falcon(const Decoder& config, const std::string& name,
                                    const ModelOptions& options);
[[nodiscard]] Graph build_hf_gemma(const Decoder& config, const std::string& name,
                                   const ModelOptions& options);
[[nodiscard]] Graph build_hf_gemma2(const Decoder& config, const std::string& name,
                                    const ModelOptions& options);
[[nodiscard]] Graph build_hf_gemma3(const Decoder& config, const std::string& name,
                                    const ModelOptions& options);
[[nodiscard]] Graph build_hf_gemma3_text(const Decoder& config, const std::string& name,
                                         const ModelOptions& options);
[[nodiscard]] Graph build_hf_mpt(const Decoder& config, const std::string& name,
                                 const ModelOptions& options);
[[nodiscard]] Graph build_hf_nemotron(const Decoder& config, const std::string& name,
                                      const ModelOptions& options);
[[nodiscard]] Graph build_hf_phi(const Decoder& config, const std::string& name,
                                 const ModelOptions& options);
[[nodiscard]] Graph build_hf_phi3(const Decoder& config, const std::string& name,
                                  const ModelOptions& options);
[[nodiscard]] Graph build_hf_qwen3(const Decoder& config, const std::string& name,
                                   const ModelOptions& options);
[[nodiscard]] Graph build_hf_qwen3_moe(const Decoder& config, const std::string& name,
                                       const ModelOptions& options);
[[nodiscard]] Graph build_hf_stablelm(const Decoder& config, const std::string& name,
                                      const ModelOptions& options);
[[nodiscard]] Graph build_hf_whisper(const Decoder& config, const std::string& name,
                                     const ModelOptions& options);
[[nodiscard]] Graph build_hf_vit(const Decoder& config, const std::string& name,
                                 const ModelOptions& options);

// Reads the sizes that llama, mistral, qwen2 and mixtral name alike; `defaults` holds those that a
// config may leave out. Heads and widths are checked.
[[nodiscard]] LlamaConfig hf_llama_sizes(const Decoder& config, LlamaConfig defaults);
// Returns the number of classes of a classifier: as many as id2label has, else num_labels, else 2
// as in transformers.
[[nodiscard]] std::int64_t hf_labels(const Decoder& config);
// Throws UserError for a decoder that reads an encoder's results: its blocks have a second
// attention.
void refuse_cross_attention(const Decoder& config);
// Remarks on a config that asks for the auxiliary loss of its routers, which is not built.
void remark_on_router_loss(const Decoder& config, Graph& graph);
// Returns the class that `architectures` names; the first of `known` when the config has none.
// Throws at the key when it is not known.
[[nodiscard]] std::string hf_class(const Decoder& config, std::span<const std::string_view> known);

// Returns the name in models/language.hpp ("new_gelu") of an activation that Hugging Face names
// ("gelu_new"). Throws at `key` when it is not known.
[[nodiscard]] std::string hf_activation(const Decoder& config, std::string_view key,
                                        std::string_view fallback);

}  // namespace tidemark
