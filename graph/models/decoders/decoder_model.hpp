// Decoder-only language models that differ from Llama in where they normalise, what they add and
// how positions enter: Falcon, Gemma 1 to 3, GPT-NeoX, MPT, Nemotron, Phi, Phi-3, Qwen3 with
// its mixtures of experts and StableLM, as Hugging Face's eager modules compute them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/core/decoder.hpp"
#include "graph/ir/graph.hpp"
#include "graph/models/model_options.hpp"

namespace tidemark {

enum class DecoderNorm : std::uint8_t {
  kLayer,        // LayerNorm with weight and bias
  kLayerNoBias,  // LayerNorm with a weight only
  kRms,          // LlamaRMSNorm
  kRmsInFp32,    // GemmaRMSNorm: (1 + weight) multiplies in fp32
};

// The ways to join the attention a and the feed-forward layer f of a block, with norms n.
enum class DecoderBlock : std::uint8_t {
  kSequential,     // y = x + a(n1(x)); y + f(n2(y))
  kParallel,       // x + a(n1(x)) + f(n1(x))
  kParallelNorms,  // x + a(n1(x)) + f(n2(x))
  kSandwich,       // y = x + n2(a(n1(x))); y + n4(f(n3(y)))
};

// Norms of queries and keys before they are rotated.
enum class QueryKeyNorm : std::uint8_t {
  kNone,
  kShared,   // one weight of a head's width for all heads
  kPerHead,  // a layer norm without bias for each head
};

// Names of modules, which patterns of policies match.
struct DecoderNames {
  std::string_view embedding = "embed_tokens";
  std::string_view block = "layers";
  std::string_view attention = "self_attn";
  std::string_view fused = "qkv_proj";  // queries, keys and values in one projection
  std::string_view output = "o_proj";
  std::string_view mlp = "mlp";
  std::string_view gate = "gate_proj";
  std::string_view up = "up_proj";
  std::string_view down = "down_proj";
  std::string_view first_norm = "input_layernorm";
  std::string_view second_norm = "post_attention_layernorm";
  std::string_view final_norm = "norm";
};

struct DecoderConfig {
  std::int64_t layers = 2;
  std::int64_t width = 256;
  std::int64_t heads = 8;
  std::int64_t kv_heads = 8;
  std::int64_t head_width = 32;
  std::int64_t ffn = 1024;
  std::int64_t vocab = 4096;
  std::int64_t positions = 2048;    // the longest sequence trained on
  std::int64_t position_table = 0;  // rows of learned positions; 0: none
  std::int64_t rotary_width = 0;    // elements of each head that turn; 0: none
  bool alibi = false;               // a bias of [heads, 1, length] is added to the scores
  DecoderNorm norm = DecoderNorm::kRms;
  DecoderBlock block = DecoderBlock::kSequential;
  QueryKeyNorm query_key_norm = QueryKeyNorm::kNone;
  bool fused_projection = false;  // one projection makes queries, keys and values
  bool gated = true;              // f = down(act(gate(x)) * up(x)), else down(act(up(x)))
  bool fused_gate = false;        // gate and up are halves of one projection
  std::int64_t experts = 0;       // of each feed-forward layer that is a mixture; 0: none is
  std::int64_t experts_per_token = 8;
  std::int64_t expert_ffn = 0;                  // hidden width of each
  std::int64_t sparse_step = 1;                 // block i has a mixture where this divides i + 1
  std::vector<std::int64_t> dense_blocks = {};  // blocks that have none all the same
  bool normalises_experts = true;               // the weights of a token's experts add up to 1
  std::optional<double> capacity_factor = {};   // see MixtureOfExperts
  std::string activation = "silu";              // one of language.hpp, or relu2: relu(x)^2
  bool projection_bias = false;
  bool output_bias = false;
  bool ffn_bias = false;
  bool head_bias = false;
  bool tie = false;
  bool scales_embedding = false;  // embeddings are multiplied by sqrt(width)
  bool caps_scores = false;       // eager scores go through cap * tanh(x / cap)
  bool caps_logits = false;
  bool upcasts_logits = true;  // the loss is taken on logits.float(); else on what they are
  double embedding_dropout = 0;
  double attention_dropout = 0;
  double residual_dropout = 0;
  DecoderNames names;
};

// Reads overrides of `defaults`, and checks that the whole fits together.
[[nodiscard]] DecoderConfig decode_decoder(const Decoder& overrides, DecoderConfig defaults);
// Names the keys at which check_decoder() throws.
struct DecoderKeys {
  std::string_view heads;
  std::string_view kv_heads;
  std::string_view rotary;
};
// Throws UserError unless key-value heads divide heads, and pairs of elements turn.
void check_decoder(const Decoder& config, const DecoderKeys& keys, const DecoderConfig& decoder);
[[nodiscard]] Graph build_decoder(const DecoderConfig& config, const std::string& name,
                                  const ModelOptions& options);

// Published models of each family with its defaults, for presets and configs.
[[nodiscard]] DecoderConfig falcon_defaults();
[[nodiscard]] DecoderConfig gemma_defaults();
[[nodiscard]] DecoderConfig gemma2_defaults();
[[nodiscard]] DecoderConfig gemma3_defaults();
[[nodiscard]] DecoderConfig litgpt_defaults();
[[nodiscard]] DecoderConfig mpt_defaults();
[[nodiscard]] DecoderConfig nemotron_defaults();
[[nodiscard]] DecoderConfig phi_defaults();
[[nodiscard]] DecoderConfig phi3_defaults();
[[nodiscard]] DecoderConfig pythia_defaults();
[[nodiscard]] DecoderConfig qwen3_defaults();
[[nodiscard]] DecoderConfig qwen3_moe_defaults();
[[nodiscard]] DecoderConfig stablelm_defaults();

}  // namespace tidemark
