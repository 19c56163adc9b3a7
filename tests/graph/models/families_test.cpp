// Exact parameter counts of published models, from their configs and modelling code.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "graph/core/document.hpp"
#include "graph/import/hf_config.hpp"
#include "graph/models/preset.hpp"

namespace tidemark::families_test {
namespace {

Graph preset(const std::string& name, const std::string& overrides = "{}") {
  const Value document = parse_document(overrides, "model.yaml");
  ModelOptions options;
  options.sequence = 64;
  options.loss = LossKind::kNone;
  const ModelPreset found = find_preset(name);
  if (!found.attends) options.sequence.reset();
  return found.build(Decoder(document), options);
}

std::int64_t parameters(const std::string& name) {
  return parameter_elements(preset(name).parameters).count;
}

std::int64_t imported(const std::string& config) {
  const Value document = parse_document(config, "config.json");
  return parameter_elements(
             import_hf_config(Decoder(document), "model", {.sequence = 8, .loss = LossKind::kNone})
                 .parameters)
      .count;
}

constexpr std::int64_t kWidth = 48;
constexpr std::int64_t kFfn = 80;
constexpr std::int64_t kVocab = 101;
constexpr std::int64_t kLayers = 3;
constexpr std::int64_t kHeads = 6;
constexpr std::int64_t kKeyHeads = 2;
constexpr std::int64_t kHead = 8;  // width of a head

std::string config_of(const std::string& model_type, const std::string& more = "") {
  return R"({"model_type": ")" + model_type +
         R"(", "vocab_size": 101, "hidden_size": 48, "intermediate_size": 80, )"
         R"("num_hidden_layers": 3, "num_attention_heads": 6, "num_key_value_heads": 2)" +
         more + "}";
}

// Queries, keys, values and the output projection, without biases.
constexpr std::int64_t attention(std::int64_t head) {
  return kWidth * head * (2 * kHeads + 2 * kKeyHeads);
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("language models have as many parameters as published") {
    const std::vector<std::pair<std::string, std::int64_t>> counts{
        {"falcon-7b", 6'921'720'704},
        {"falcon-40b", 41'303'293'952},
        {"falcon-rw-1b", 1'311'625'216},
        {"gemma-2b", 2'506'172'416},
        {"gemma-7b", 8'537'680'896},
        {"gemma-2-2b", 2'614'341'888},
        {"gemma-2-9b", 9'241'705'984},
        {"gemma-2-27b", 27'227'128'320},
        {"gemma-3-270m", 268'098'176},
        {"gemma-3-1b", 999'885'952},
        {"mpt-7b", 6'649'286'656},
        {"phi-1.5", 1'418'270'720},
        {"phi-2", 2'779'683'840},
        {"phi-3-mini", 3'821'079'552},
        {"phi-3-medium", 13'960'238'080},
        {"phi-4", 14'659'507'200},
        {"qwen3-0.6b", 596'049'920},
        {"qwen3-1.7b", 1'720'574'976},
        {"qwen3-4b", 4'022'468'096},
        {"qwen3-8b", 8'190'735'360},
        {"qwen3-14b", 14'768'307'200},
        {"qwen3-32b", 32'762'123'264},
        {"qwen3-30b-a3b", 30'532'122'624},
        {"litgpt", 6'738'415'616},
        {"pythia-410m", 405'334'016},
        {"pythia-1.4b", 1'414'647'808},
        {"pythia-6.9b", 6'857'302'016},
        {"pythia-12b", 11'846'072'320},
        {"gpt-neox-20b", 20'554'567'680},
        {"stablelm-base-alpha-3b", 3'637'321'728},
        {"stablelm-3b-4e1t", 2'795'443'200},
        {"stablelm-2-1.6b", 1'644'515'328},
        {"deepseek-v2-lite", 15'706'484'224},
        {"deepseek-v2", 235'741'434'880},
        {"deepseek-v3", 671'026'419'200}};
    for (const auto& [name, count] : counts) {
      CAPTURE(name);
      CHECK(parameters(name) == count);
    }
  }

  TEST_CASE("Minitron and MPT 30B are the sum over their layers") {
    // Queries and output 2 * 3072^2, keys and values 2 * 3072 * 1024, two products of 9216 and two
    // norms with a bias; 32 layers, two tables of 256,000 rows and a norm.
    constexpr std::int64_t kLayer = 2 * 3072 * 3072 + 2 * 3072 * 1024 + 2 * 3072 * 9216 + 4 * 3072;
    CHECK(parameters("minitron-4b") == 32 * kLayer + 2 * 256'000LL * 3072 + 2 * 3072);
    constexpr std::int64_t kMpt = 4 * 7168 * 7168 + 2 * 7168LL * 28'672 + 2 * 7168;
    CHECK(parameters("mpt-30b") == 48 * kMpt + 50'432LL * 7168 + 7168);
  }

  TEST_CASE("Whisper's sinusoids are parameters that are not trained") {
    const Graph tiny = preset("whisper-tiny");
    CHECK(parameter_elements(tiny.parameters).count == 37'760'640);
    CHECK(trained_elements(tiny.parameters).count == 37'760'640 - 1500 * 384);
    CHECK(parameters("whisper-small") == 241'734'912);
    CHECK(parameters("whisper-large-v3") == 1'543'490'560);
    CHECK(parameters("whisper-large-v3-turbo") == 808'878'080);
  }

  TEST_CASE("image models have as many parameters as torchvision's") {
    const std::vector<std::pair<std::string, std::int64_t>> counts{
        {"swin_t", 28'288'354},
        {"swin_s", 49'606'258},
        {"swin_b", 87'768'224},
        {"efficientnet_b0", 5'288'548},
        {"efficientnet_b1", 7'794'184},
        {"efficientnet_b2", 9'109'994},
        {"efficientnet_b3", 12'233'232},
        {"efficientnet_b4", 19'341'616},
        {"efficientnet_b5", 30'389'784},
        {"efficientnet_b6", 43'040'704},
        {"efficientnet_b7", 66'347'960},
        {"efficientnet_v2_s", 21'458'488},
        {"efficientnet_v2_m", 54'139'356},
        {"efficientnet_v2_l", 118'515'272},
        {"regnet_y_400mf", 4'344'144},
        {"regnet_y_800mf", 6'432'512},
        {"regnet_y_1_6gf", 11'202'430},
        {"regnet_y_3_2gf", 19'436'338},
        {"regnet_y_8gf", 39'381'472},
        {"regnet_y_16gf", 83'590'140},
        {"regnet_y_32gf", 145'046'770},
        {"regnet_x_400mf", 5'495'976},
        {"regnet_x_800mf", 7'259'656},
        {"regnet_x_1_6gf", 9'190'136},
        {"regnet_x_3_2gf", 15'296'552},
        {"regnet_x_8gf", 39'572'648},
        {"regnet_x_16gf", 54'278'536},
        {"regnet_x_32gf", 107'811'560}};
    for (const auto& [name, count] : counts) {
      CAPTURE(name);
      CHECK(parameters(name) == count);
    }
  }

  TEST_CASE("configs of small models are counted by hand") {
    constexpr std::int64_t kTable = kVocab * kWidth;
    // Norms: weight and bias, or a weight.
    const auto model = [](std::int64_t layer, std::int64_t tables, std::int64_t norm) {
      return kLayers * layer + tables * kTable + norm;
    };
    const std::int64_t gated = 3 * kWidth * kFfn;
    const std::int64_t plain = 2 * kWidth * kFfn;
    CHECK(imported(config_of("phi3")) == model(attention(kHead) + gated + 2 * kWidth, 2, kWidth));
    CHECK(imported(config_of("stablelm")) ==
          model(attention(kHead) + gated + 4 * kWidth, 2, 2 * kWidth));
    // A norm of each head: kHead weights.
    CHECK(imported(config_of("stablelm", R"(, "qk_layernorm": true, "use_qkv_bias": true)")) ==
          model(attention(kHead) + kHead * (kHeads + 2 * kKeyHeads) + kHead * (kHeads + kKeyHeads) +
                    gated + 4 * kWidth,
                2, 2 * kWidth));
    CHECK(imported(config_of("nemotron")) ==
          model(attention(kHead) + plain + 4 * kWidth, 2, 2 * kWidth));
    // Biases of all products, one norm, and a head with a bias.
    CHECK(imported(config_of("phi")) == model(attention(kHead) + kHead * (kHeads + 2 * kKeyHeads) +
                                                  kWidth + plain + kFfn + kWidth + 2 * kWidth,
                                              2, 2 * kWidth) +
                                            kVocab);
    CHECK(imported(config_of("qwen3", R"(, "head_dim": 16, "tie_word_embeddings": true)")) ==
          model(attention(16) + 2 * 16 + gated + 2 * kWidth, 1, kWidth));
    // A router and experts of their own width in blocks 1 and 2 of 3; block 0 has a plain layer, as
    // the step says, or the list.
    const std::int64_t mixture = kWidth * 5 + 5 * 3 * kWidth * 7;
    const std::int64_t experts = model(attention(16) + 2 * 16 + 2 * kWidth, 2, kWidth);
    const std::string moe = R"(, "head_dim": 16, "num_experts": 5, "num_experts_per_tok": 2, )"
                            R"("moe_intermediate_size": 7, "norm_topk_prob": )";
    static_assert(kLayers == 3);
    CHECK(imported(config_of("qwen3_moe", moe + "true")) == experts + 3 * mixture);
    CHECK(imported(config_of("qwen3_moe", moe + R"(false, "mlp_only_layers": [0])")) ==
          experts + 2 * mixture + gated);
    CHECK(imported(config_of("qwen3_moe", moe + R"(true, "decoder_sparse_step": 2)")) ==
          experts + mixture + 2 * gated);
    CHECK(imported(config_of("gemma", R"(, "head_dim": 16)")) ==
          model(attention(16) + gated + 2 * kWidth, 1, kWidth));
    CHECK(imported(config_of("gemma2", R"(, "head_dim": 16)")) ==
          model(attention(16) + gated + 4 * kWidth, 1, kWidth));
    const std::int64_t gemma3 = model(attention(16) + 2 * 16 + gated + 4 * kWidth, 1, kWidth);
    CHECK(imported(config_of("gemma3_text", R"(, "head_dim": 16)")) == gemma3);
    CHECK(imported(R"({"model_type": "gemma3", "text_config": )" +
                   config_of("gemma3_text", R"(, "head_dim": 16)") + "}") == gemma3);
  }

  TEST_CASE("Falcon and MPT say in their configs which of their forms they have") {
    const std::string falcon = R"({"model_type": "falcon", "vocab_size": 101, "hidden_size": 48, )"
                               R"("num_hidden_layers": 3, "num_attention_heads": 6)";
    constexpr std::int64_t kFeedForward = 8 * kWidth * kWidth;
    constexpr std::int64_t kOuter = kVocab * kWidth + 2 * kWidth;
    // One key-value head, one norm.
    CHECK(imported(falcon + "}") ==
          kLayers * (2 * kWidth * (kWidth + kHead) + kFeedForward + 2 * kWidth) + kOuter);
    // Two key-value heads, two norms.
    CHECK(imported(falcon + R"(, "new_decoder_architecture": true, "num_kv_heads": 2})") ==
          kLayers * (2 * kWidth * (kWidth + 2 * kHead) + kFeedForward + 4 * kWidth) + kOuter);
    // ALiBi, one after the other, biases: 4 + 4 + 1 + 1 widths, less what one head saves.
    CHECK(imported(falcon + R"(, "multi_query": false, "alibi": true, "parallel_attn": false, )"
                            R"("bias": true})") ==
          kLayers * (4 * kWidth * kWidth + kFeedForward + 4 * kWidth + 9 * kWidth) + kOuter);
    CHECK(imported(R"({"model_type": "mpt", "vocab_size": 101, "d_model": 48, "n_layers": 3, )"
                   R"("n_heads": 6, "attn_config": {"attn_pdrop": 0}})") ==
          kLayers * (4 * kWidth * kWidth + kFeedForward + 2 * kWidth) + kVocab * kWidth + kWidth);
  }

  TEST_CASE("latent attention is counted by its ranks") {
    const std::string config =
        config_of("deepseek_v3",
                  R"(, "moe_intermediate_size": 16, "q_lora_rank": 12, "kv_lora_rank": 10, )"
                  R"("qk_nope_head_dim": 8, "qk_rope_head_dim": 4, "v_head_dim": 6, )"
                  R"("first_k_dense_replace": 1, "n_routed_experts": 5, "num_experts_per_tok": 2, )"
                  R"("n_shared_experts": 1)");
    // q_a, its norm, q_b; kv_a with the shared key, its norm, kv_b; the output.
    constexpr std::int64_t kLatent =
        kWidth * 12 + 12 + 12 * 6 * 12 + kWidth * 14 + 10 + 10 * 6 * 14 + 6 * 6 * kWidth;
    constexpr std::int64_t kDense = 3 * kWidth * kFfn;
    constexpr std::int64_t kExperts = 5 * kWidth + 5 + 6 * 3 * kWidth * 16;
    CHECK(imported(config) ==
          kLayers * (kLatent + 2 * kWidth) + kDense + 2 * kExperts + 2 * kVocab * kWidth + kWidth);
  }

  TEST_CASE("a spectrogram enters a Whisper of any size") {
    const std::int64_t count = imported(
        R"({"model_type": "whisper", "vocab_size": 101, "d_model": 48, "encoder_layers": 1, )"
        R"("decoder_layers": 1, "encoder_attention_heads": 6, "decoder_attention_heads": 6, )"
        R"("encoder_ffn_dim": 80, "decoder_ffn_dim": 80, "num_mel_bins": 20, )"
        R"("max_source_positions": 30, "max_target_positions": 16})");
    constexpr std::int64_t kAttention = 4 * kWidth * kWidth + 3 * kWidth;
    constexpr std::int64_t kFeedForward = 2 * kWidth * kFfn + kFfn + kWidth;
    constexpr std::int64_t kNorm = 2 * kWidth;
    constexpr std::int64_t kStem = 3 * 20 * kWidth + kWidth + 3 * kWidth * kWidth + kWidth;
    CHECK(count == kStem + 30 * kWidth + kAttention + kFeedForward + 3 * kNorm +  // encoder
                       kVocab * kWidth + 16 * kWidth + 2 * kAttention + kFeedForward + 4 * kNorm);
  }
}

}  // namespace tidemark::families_test
