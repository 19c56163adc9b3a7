// model_type gpt2: transformers/models/gpt2/modeling_gpt2.py. Its Conv1D is a linear layer with the
// weight stored transposed, which takes the same memory.
#include <cstdint>
#include <string>

#include "graph/import/hf_config.hpp"
#include "graph/models/decoders/gpt.hpp"
#include "graph/models/model_limits.hpp"

namespace tidemark {

Graph build_hf_gpt2(const Decoder& config, const std::string& name, const ModelOptions& options) {
  constexpr double kDefaultDropout = 0.1;  // GPT2Config
  GptConfig gpt{.code = GptCode::kHuggingFace};
  gpt.vocab = config.required<std::int64_t>("vocab_size", up_to(kMaxVocabulary));
  gpt.positions = config.required<std::int64_t>("n_positions", up_to(kMaxSequence));
  gpt.width = config.required<std::int64_t>("n_embd", up_to(kMaxWidth));
  gpt.layers = config.required<std::int64_t>("n_layer", up_to(kMaxLayers));
  gpt.heads = config.required<std::int64_t>("n_head", up_to(kMaxHeads));
  gpt.ffn = config.maybe<std::int64_t>("n_inner", up_to(kMaxWidth));
  gpt.activation = hf_activation(config, "activation_function", "gelu_new");
  refuse_cross_attention(config);
  gpt.embedding_dropout = config.optional<double>("embd_pdrop", kDefaultDropout, between(0, 1));
  gpt.attention_dropout = config.optional<double>("attn_pdrop", kDefaultDropout, between(0, 1));
  gpt.residual_dropout = config.optional<double>("resid_pdrop", kDefaultDropout, between(0, 1));
  gpt.tie = config.optional<bool>("tie_word_embeddings", true);
  check_gpt_heads(config, "n_head", gpt);
  return build_gpt(gpt, name, options);
}

}  // namespace tidemark
