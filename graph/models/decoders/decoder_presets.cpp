// Published decoder-only models, sizes as in their config.json.
#include <string>
#include <utility>
#include <vector>

#include "graph/models/decoders/decoder_model.hpp"
#include "graph/models/preset.hpp"

namespace tidemark {
namespace decoder_presets_detail {
namespace {

struct Sizes {
  std::int64_t layers;
  std::int64_t width;
  std::int64_t heads;
  std::int64_t kv_heads;
  std::int64_t head_width;
  std::int64_t ffn;
  std::int64_t vocab;
  std::int64_t positions;
};

// Rotary positions turn the same share of the heads as in `family`.
DecoderConfig sized(DecoderConfig family, const Sizes& sizes) {
  const std::int64_t turned = family.rotary_width * sizes.head_width / family.head_width;
  family.layers = sizes.layers;
  family.width = sizes.width;
  family.heads = sizes.heads;
  family.kv_heads = sizes.kv_heads;
  family.head_width = sizes.head_width;
  family.ffn = sizes.ffn;
  family.vocab = sizes.vocab;
  family.positions = sizes.positions;
  family.rotary_width = turned;
  return family;
}

DecoderConfig tied(DecoderConfig config) {
  config.tie = true;
  return config;
}

// Two norms of the same input, and grouped queries: "new_decoder_architecture".
DecoderConfig falcon_40b() {
  DecoderConfig config = sized(falcon_defaults(), {60, 8192, 128, 8, 64, 32768, 65024, 2048});
  config.block = DecoderBlock::kParallelNorms;
  config.names.first_norm = "ln_attn";
  config.names.second_norm = "ln_mlp";
  return config;
}

// ALiBi, biases, one block after the other.
DecoderConfig falcon_rw_1b() {
  DecoderConfig config = sized(falcon_defaults(), {24, 2048, 32, 32, 64, 8192, 50304, 2048});
  config.rotary_width = 0;
  config.alibi = true;
  config.block = DecoderBlock::kSequential;
  config.projection_bias = config.output_bias = config.ffn_bias = true;
  return config;
}

DecoderConfig stablelm_2_1_6b() {
  DecoderConfig config = sized(stablelm_defaults(), {24, 2048, 32, 32, 64, 5632, 100352, 4096});
  config.projection_bias = true;
  return config;
}

// Half of each head turns, where Phi 2 turns two fifths.
DecoderConfig phi_1_5() {
  DecoderConfig config = sized(phi_defaults(), {24, 2048, 32, 32, 64, 8192, 51200, 2048});
  config.rotary_width = 32;
  config.residual_dropout = 0;
  return config;
}

DecoderConfig gemma_2_9b() {
  return sized(gemma2_defaults(), {42, 3584, 16, 8, 256, 14336, 256000, 8192});
}

DecoderConfig qwen3(std::int64_t layers, std::int64_t width, std::int64_t heads, std::int64_t ffn) {
  return sized(qwen3_defaults(), {layers, width, heads, 8, 128, ffn, 151936, 40960});
}

}  // namespace
}  // namespace decoder_presets_detail

// tiiuae/falcon-7b: modeling_falcon.py.
DecoderConfig falcon_defaults() {
  return {.layers = 32,
          .width = 4544,
          .heads = 71,
          .kv_heads = 1,
          .head_width = 64,
          .ffn = 18176,
          .vocab = 65024,
          .positions = 2048,
          .rotary_width = 64,
          .norm = DecoderNorm::kLayer,
          .block = DecoderBlock::kParallel,
          .fused_projection = true,
          .gated = false,
          .activation = "gelu",
          .tie = true,
          .names = {.embedding = "word_embeddings",
                    .block = "h",
                    .attention = "self_attention",
                    .fused = "query_key_value",
                    .output = "dense",
                    .up = "dense_h_to_4h",
                    .down = "dense_4h_to_h",
                    .final_norm = "ln_f"}};
}

// google/gemma-2b: modeling_gemma.py.
DecoderConfig gemma_defaults() {
  return {.layers = 18,
          .width = 2048,
          .heads = 8,
          .kv_heads = 1,
          .head_width = 256,
          .ffn = 16384,
          .vocab = 256000,
          .positions = 8192,
          .rotary_width = 256,
          .norm = DecoderNorm::kRmsInFp32,
          .activation = "gelu_tanh",
          .tie = true,
          .scales_embedding = true};
}

// google/gemma-2-2b: modeling_gemma2.py.
DecoderConfig gemma2_defaults() {
  DecoderConfig config = gemma_defaults();
  config.layers = 26;
  config.width = 2304;
  config.kv_heads = 4;
  config.ffn = 9216;
  config.block = DecoderBlock::kSandwich;
  config.caps_scores = true;
  config.caps_logits = true;
  return config;
}

// google/gemma-3-1b-pt: modeling_gemma3.py, which caps nothing and norms queries and keys.
DecoderConfig gemma3_defaults() {
  DecoderConfig config = gemma2_defaults();
  config.width = 1152;
  config.heads = 4;
  config.kv_heads = 1;
  config.ffn = 6912;
  config.vocab = 262144;
  config.positions = 32768;
  config.caps_scores = false;
  config.caps_logits = false;
  config.query_key_norm = QueryKeyNorm::kShared;
  return config;
}

// mosaicml/mpt-7b: modeling_mpt.py.
DecoderConfig mpt_defaults() {
  return {.layers = 32,
          .width = 4096,
          .heads = 32,
          .kv_heads = 32,
          .head_width = 128,
          .ffn = 16384,
          .vocab = 50432,
          .positions = 2048,
          .alibi = true,
          .norm = DecoderNorm::kLayerNoBias,
          .fused_projection = true,
          .gated = false,
          .activation = "gelu",
          .tie = true,
          .names = {.embedding = "wte",
                    .block = "blocks",
                    .attention = "attn",
                    .fused = "Wqkv",
                    .output = "out_proj",
                    .mlp = "ffn",
                    .first_norm = "norm_1",
                    .second_norm = "norm_2",
                    .final_norm = "norm_f"}};
}

// nvidia/Minitron-4B-Base: modeling_nemotron.py. LayerNorm1P has a weight and a bias.
DecoderConfig nemotron_defaults() {
  return {.layers = 32,
          .width = 3072,
          .heads = 24,
          .kv_heads = 8,
          .head_width = 128,
          .ffn = 9216,
          .vocab = 256000,
          .positions = 4096,
          .rotary_width = 64,
          .norm = DecoderNorm::kLayer,
          .gated = false,
          .activation = "relu2"};
}

// microsoft/phi-2: modeling_phi.py.
DecoderConfig phi_defaults() {
  return {
      .layers = 32,
      .width = 2560,
      .heads = 32,
      .kv_heads = 32,
      .head_width = 80,
      .ffn = 10240,
      .vocab = 51200,
      .positions = 2048,
      .rotary_width = 32,
      .norm = DecoderNorm::kLayer,
      .block = DecoderBlock::kParallel,
      .gated = false,
      .activation = "new_gelu",
      .projection_bias = true,
      .output_bias = true,
      .ffn_bias = true,
      .head_bias = true,
      .residual_dropout = 0.1,
      .names = {.output = "dense", .up = "fc1", .down = "fc2", .final_norm = "final_layernorm"}};
}

// microsoft/Phi-3-mini-4k-instruct: modeling_phi3.py.
DecoderConfig phi3_defaults() {
  return {.layers = 32,
          .width = 3072,
          .heads = 32,
          .kv_heads = 32,
          .head_width = 96,
          .ffn = 8192,
          .vocab = 32064,
          .positions = 4096,
          .rotary_width = 96,
          .fused_projection = true,
          .fused_gate = true};
}

// EleutherAI/pythia-6.9b: modeling_gpt_neox.py. A quarter of each head turns.
DecoderConfig pythia_defaults() {
  return {.layers = 32,
          .width = 4096,
          .heads = 32,
          .kv_heads = 32,
          .head_width = 128,
          .ffn = 16384,
          .vocab = 50432,
          .positions = 2048,
          .rotary_width = 32,
          .norm = DecoderNorm::kLayer,
          .block = DecoderBlock::kParallelNorms,
          .fused_projection = true,
          .gated = false,
          .activation = "gelu",
          .projection_bias = true,
          .output_bias = true,
          .ffn_bias = true,
          .names = {.embedding = "embed_in",
                    .attention = "attention",
                    .fused = "query_key_value",
                    .output = "dense",
                    .up = "dense_h_to_4h",
                    .down = "dense_4h_to_h",
                    .final_norm = "final_layer_norm"}};
}

// Llama 2 in litgpt: model.py has one projection for queries, keys and values, and the loss is
// taken on the logits as they are.
DecoderConfig litgpt_defaults() {
  return {.layers = 32,
          .width = 4096,
          .heads = 32,
          .kv_heads = 32,
          .head_width = 128,
          .ffn = 11008,
          .vocab = 32000,
          .positions = 4096,
          .rotary_width = 128,
          .fused_projection = true,
          .upcasts_logits = false,
          .names = {.embedding = "wte",
                    .block = "h",
                    .attention = "attn",
                    .fused = "qkv",
                    .output = "proj",
                    .gate = "fc_1",
                    .up = "fc_2",
                    .down = "proj",
                    .first_norm = "norm_1",
                    .second_norm = "norm_2",
                    .final_norm = "ln_f"}};
}

// Qwen/Qwen3-8B: modeling_qwen3.py, Llama with norms of queries and keys and heads of any width.
DecoderConfig qwen3_defaults() {
  return {.layers = 36,
          .width = 4096,
          .heads = 32,
          .kv_heads = 8,
          .head_width = 128,
          .ffn = 12288,
          .vocab = 151936,
          .positions = 40960,
          .rotary_width = 128,
          .query_key_norm = QueryKeyNorm::kShared};
}

// Qwen/Qwen3-30B-A3B: modeling_qwen3_moe.py, Qwen3 with a mixture in every block.
DecoderConfig qwen3_moe_defaults() {
  using decoder_presets_detail::sized;
  DecoderConfig config = sized(qwen3_defaults(), {48, 2048, 32, 4, 128, 6144, 151936, 40960});
  config.experts = 128;
  config.expert_ffn = 768;
  return config;
}

// stabilityai/stablelm-3b-4e1t: modeling_stablelm.py.
DecoderConfig stablelm_defaults() {
  return {.layers = 32,
          .width = 2560,
          .heads = 32,
          .kv_heads = 32,
          .head_width = 80,
          .ffn = 6912,
          .vocab = 50304,
          .positions = 4096,
          .rotary_width = 20,
          .norm = DecoderNorm::kLayer};
}

std::vector<ModelPreset> decoder_presets() {
  using decoder_presets_detail::sized;
  using decoder_presets_detail::tied;
  const auto preset = [](std::string name, std::string summary, DecoderConfig config) {
    return make_preset<DecoderConfig>(std::move(name), "language", std::move(summary),
                                      std::move(config), decode_decoder, build_decoder);
  };
  return {
      preset("falcon-7b", "Falcon, 6.92 B parameters, one key-value head", falcon_defaults()),
      preset("falcon-40b", "Falcon, 41.3 B parameters, grouped queries",
             decoder_presets_detail::falcon_40b()),
      preset("falcon-rw-1b", "Falcon RefinedWeb, 1.31 B parameters, ALiBi",
             decoder_presets_detail::falcon_rw_1b()),
      preset("gemma-2b", "Gemma, 2.51 B parameters", gemma_defaults()),
      preset("gemma-7b", "Gemma, 8.54 B parameters",
             sized(gemma_defaults(), {28, 3072, 16, 16, 256, 24576, 256000, 8192})),
      preset("gemma-2-2b", "Gemma 2, 2.61 B parameters", gemma2_defaults()),
      preset("gemma-2-9b", "Gemma 2, 9.24 B parameters", decoder_presets_detail::gemma_2_9b()),
      preset("gemma-2-27b", "Gemma 2, 27.2 B parameters",
             sized(gemma2_defaults(), {46, 4608, 32, 16, 128, 36864, 256000, 8192})),
      preset("gemma-3-270m", "Gemma 3, 268 M parameters",
             sized(gemma3_defaults(), {18, 640, 4, 1, 256, 2048, 262144, 32768})),
      preset("gemma-3-1b", "Gemma 3, 1.00 B parameters", gemma3_defaults()),
      preset("litgpt", "Llama 2 as litgpt writes it, 6.74 B parameters", litgpt_defaults()),
      preset("mpt-7b", "MPT, 6.65 B parameters, ALiBi", mpt_defaults()),
      preset("mpt-30b", "MPT, 30.0 B parameters, ALiBi",
             sized(mpt_defaults(), {48, 7168, 64, 64, 112, 28672, 50432, 8192})),
      preset("minitron-4b", "Nemotron (Minitron), 4.19 B parameters", nemotron_defaults()),
      preset("minitron-8b", "Nemotron (Minitron), 8.27 B parameters",
             sized(nemotron_defaults(), {32, 4096, 48, 8, 128, 16384, 256000, 4096})),
      preset("phi-1.5", "Phi 1.5, 1.42 B parameters", decoder_presets_detail::phi_1_5()),
      preset("phi-2", "Phi 2, 2.78 B parameters", phi_defaults()),
      preset("phi-3-mini", "Phi 3 mini, 3.82 B parameters", phi3_defaults()),
      preset("phi-3-medium", "Phi 3 medium, 14.0 B parameters, grouped queries",
             sized(phi3_defaults(), {40, 5120, 40, 10, 128, 17920, 32064, 4096})),
      preset("phi-4", "Phi 4, 14.7 B parameters, grouped queries",
             sized(phi3_defaults(), {40, 5120, 40, 10, 128, 17920, 100352, 16384})),
      preset("pythia-410m", "Pythia (GPT-NeoX), 405 M parameters",
             sized(pythia_defaults(), {24, 1024, 16, 16, 64, 4096, 50304, 2048})),
      preset("pythia-1.4b", "Pythia (GPT-NeoX), 1.41 B parameters",
             sized(pythia_defaults(), {24, 2048, 16, 16, 128, 8192, 50304, 2048})),
      preset("pythia-6.9b", "Pythia (GPT-NeoX), 6.86 B parameters", pythia_defaults()),
      preset("pythia-12b", "Pythia (GPT-NeoX), 11.8 B parameters",
             sized(pythia_defaults(), {36, 5120, 40, 40, 128, 20480, 50688, 2048})),
      preset("gpt-neox-20b", "GPT-NeoX, 20.6 B parameters",
             sized(pythia_defaults(), {44, 6144, 64, 64, 96, 24576, 50432, 2048})),
      preset("qwen3-0.6b", "Qwen3, 596 M parameters, tied embeddings",
             tied(decoder_presets_detail::qwen3(28, 1024, 16, 3072))),
      preset("qwen3-1.7b", "Qwen3, 1.72 B parameters, tied embeddings",
             tied(decoder_presets_detail::qwen3(28, 2048, 16, 6144))),
      preset("qwen3-4b", "Qwen3, 4.02 B parameters, tied embeddings",
             tied(decoder_presets_detail::qwen3(36, 2560, 32, 9728))),
      preset("qwen3-8b", "Qwen3, 8.19 B parameters", qwen3_defaults()),
      preset("qwen3-14b", "Qwen3, 14.8 B parameters",
             decoder_presets_detail::qwen3(40, 5120, 40, 17408)),
      preset("qwen3-32b", "Qwen3, 32.8 B parameters",
             decoder_presets_detail::qwen3(64, 5120, 64, 25600)),
      preset("qwen3-30b-a3b", "Qwen3, 30.5 B parameters, 8 of 128 experts", qwen3_moe_defaults()),
      preset("stablelm-3b-4e1t", "StableLM, 2.80 B parameters", stablelm_defaults()),
      preset("stablelm-base-alpha-3b", "StableLM alpha (GPT-NeoX), 3.64 B parameters",
             sized(pythia_defaults(), {16, 4096, 32, 32, 128, 16384, 50688, 4096})),
      preset("stablelm-2-1.6b", "StableLM 2, 1.64 B parameters",
             decoder_presets_detail::stablelm_2_1_6b()),
  };
}

}  // namespace tidemark
