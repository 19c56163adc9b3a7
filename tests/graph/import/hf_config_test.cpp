#include "graph/import/hf_config.hpp"

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "graph/core/document.hpp"
#include "graph/core/errors.hpp"
#include "graph/models/preset.hpp"
#include "graph/operators/family.hpp"
#include "tests/support/paths.hpp"

namespace tidemark::hf_config_test {
namespace {

constexpr std::string_view kGpt2 = R"({
  "model_type": "gpt2",
  "vocab_size": 100,
  "n_positions": 16,
  "n_embd": 64,
  "n_layer": 2,
  "n_head": 4
})";

constexpr std::string_view kLlama = R"({
  "model_type": "llama",
  "vocab_size": 100,
  "hidden_size": 64,
  "intermediate_size": 96,
  "num_hidden_layers": 2,
  "num_attention_heads": 4,
  "num_key_value_heads": 2,
  "max_position_embeddings": 16
})";

Graph import(const std::string& text, const ModelOptions& options = {}) {
  const Value document = parse_document(text, "config.json");
  return import_hf_config(Decoder(document), "model", options);
}

// `text` with one line replaced: the value of `key`, or the whole key when `value` is empty.
std::string with(std::string_view text, std::string_view key, std::string_view value) {
  std::string result(text);
  const std::size_t start = result.find("\"" + std::string(key) + "\"");
  if (start == std::string::npos) {
    return result.insert(result.rfind('\n'),
                         ",\n  \"" + std::string(key) + "\": " + std::string(value));
  }
  const std::size_t end = result.find_first_of(",\n", start);
  if (value.empty()) return result.erase(start, end + 1 - start);
  return result.replace(start, end - start, "\"" + std::string(key) + "\": " + std::string(value));
}

std::string error_of(const std::string& text, const ModelOptions& options = {}) {
  try {
    static_cast<void>(import(text, options));
  } catch (const UserError& error) {
    return error.what();
  }
  return "accepted";
}

std::int64_t count_of(const Graph& graph, std::string_view family) {
  return std::count_if(graph.nodes.begin(), graph.nodes.end(),
                       [&](const Node& node) { return node.family->name == family; });
}

TEST_SUITE("unit") {
  TEST_CASE("an unknown model_type is answered with those that are known") {
    CHECK(error_of(R"({"model_type": "gpt3"})") ==
          "config.json:1:16: model_type: 'gpt3' is no architecture that can be imported; known are "
          "bert, deepseek_v2, deepseek_v3, falcon, gemma, gemma2, gemma3, gemma3_text, gpt2, "
          "gpt_neox, llama, mistral, mixtral, mpt, nemotron, opt, phi, phi3, qwen2, qwen3, "
          "qwen3_moe, stablelm, t5, vit, whisper; did you mean 'gpt2'?");
    CHECK(error_of(R"({"n_embd": 3})")
              .starts_with("config.json:1:1: model_type: required key is missing"));
    CHECK(error_of("[]").find("expected a mapping") != std::string::npos);
  }

  TEST_CASE("a missing key is an error at the config") {
    CHECK(
        error_of(with(kGpt2, "n_embd", ""))
            .starts_with("config.json:1:1: n_embd: required key is missing; expected an integer"));
    CHECK(error_of(with(kLlama, "intermediate_size", ""))
              .starts_with("config.json:1:1: intermediate_size: required key is missing; expected "
                           "an integer"));
  }

  TEST_CASE("families that turn positions or compare them need no limit of the sequence") {
    std::string config(kLlama);
    const std::string_view limit = ",\n  \"max_position_embeddings\": 16";
    config.erase(config.find(limit), limit.size());
    CHECK(import(config, {.micro_batch = 2}).tokens == 2 * 2048);
    CHECK(import(config, {.micro_batch = 2, .sequence = 32}).tokens == 2 * 32);
  }

  TEST_CASE("wrong sizes are errors at their line") {
    CHECK(error_of(with(kGpt2, "n_head", "7")) ==
          "config.json:7:13: n_head: 7 heads do not divide a width of 64; the nearest that do are "
          "4 and 8");
    CHECK(error_of(with(kLlama, "num_key_value_heads", "3")) ==
          "config.json:8:26: num_key_value_heads: 3 key-value heads do not divide 4 attention "
          "heads; the nearest that do are 2 and 4");
    CHECK(error_of(with(kLlama, "head_dim", "15")) ==
          "config.json:10:15: head_dim: each head would be 15 wide; rotary positions turn pairs of "
          "elements, so it must be even");
    CHECK(error_of(with(kGpt2, "n_layer", "0"))
              .starts_with("config.json:6:14: n_layer: expected an integer"));
    CHECK(error_of(with(kGpt2, "n_layer", "-1"))
              .starts_with("config.json:6:14: n_layer: expected an integer"));
    CHECK(error_of(with(kGpt2, "n_layer", "1000000000"))
              .starts_with("config.json:6:14: n_layer: expected an integer"));
    CHECK(error_of(with(kLlama, "hidden_size", "1000000000000"))
              .starts_with("config.json:4:18: hidden_size: expected an integer"));
    CHECK(error_of(with(kGpt2, "n_embd", "\"wide\""))
              .starts_with("config.json:5:13: n_embd: expected an integer"));
    CHECK(error_of(with(kGpt2, "attn_pdrop", "1.5"))
              .starts_with("config.json:8:17: attn_pdrop: expected a number"));
    CHECK(error_of(with(kLlama, "hidden_act", "\"glu\""))
              .starts_with("config.json:10:17: hidden_act: expected one of gelu, gelu_new"));
  }

  TEST_CASE("keys that do not matter are ignored") {
    CHECK(error_of(with(kGpt2, "summary_first_dropout", "{\"a\": [1]}")) == "accepted");
    CHECK(error_of(with(kLlama, "rope_scaling", "null")) == "accepted");
    CHECK(error_of(with(kLlama, "head_dim", "null")) == "accepted");
  }

  TEST_CASE("the quantisation of a checkpoint is remarked on, as nothing comes of it") {
    CHECK(import(std::string(kLlama)).remarks.empty());
    CHECK(import(with(kLlama, "quantization_config", "null")).remarks.empty());
    const auto remarks =
        import(with(kLlama, "quantization_config", R"({"quant_method": "fp8"})")).remarks;
    REQUIRE(remarks.size() == 1);
    CHECK(remarks.front().find("quantization_config (fp8)") != std::string::npos);
    CHECK(import(with(kGpt2, "quantization_config", "[1]")).remarks.size() == 1);
  }

  TEST_CASE("the routers' auxiliary loss is remarked on where a config asks for it") {
    std::string mixtral = with(kLlama, "model_type", "\"mixtral\"");
    mixtral = with(mixtral, "num_local_experts", "3");
    mixtral = with(mixtral, "num_experts_per_tok", "2");
    std::string qwen = with(kLlama, "model_type", "\"qwen3_moe\"");
    qwen = with(qwen, "num_experts", "4");
    qwen = with(qwen, "num_experts_per_tok", "2");
    for (const std::string& moe : {mixtral, qwen}) {
      CAPTURE(moe);
      CHECK(import(moe).remarks.empty());
      CHECK(import(with(moe, "output_router_logits", "false")).remarks.empty());
      const auto remarks = import(with(moe, "output_router_logits", "true")).remarks;
      REQUIRE(remarks.size() == 1);
      CHECK(remarks.front().starts_with("output_router_logits of the model's file"));
    }
    // A model without experts has no routers.
    const std::string dense = with(qwen, "num_experts", "0");
    CHECK(import(with(dense, "output_router_logits", "true")).remarks.empty());
  }

  TEST_CASE("activations are composed where transformers composes them") {
    // NewGELUActivation has one tanh and one pow per layer.
    CHECK(count_of(import(std::string(kGpt2)), "tanh") == 2);
    CHECK(count_of(import(std::string(kGpt2)), "gelu") == 0);
    const Graph fused = import(with(kGpt2, "activation_function", "\"gelu_pytorch_tanh\""));
    CHECK(count_of(fused, "tanh") == 0);
    CHECK(count_of(fused, "gelu") == 2);
  }

  TEST_CASE("each dropout of the config reaches its place and training overrides all") {
    std::string text = with(kGpt2, "embd_pdrop", "0.3");
    text = with(text, "resid_pdrop", "0.2");
    text = with(text, "attn_pdrop", "0.4");
    const auto probabilities = [](const Graph& graph) {
      std::vector<double> result;
      for (const Node& node : graph.nodes) {
        if (node.family->name == "dropout") result.push_back(node.attributes.number("p"));
        if (node.family->name == "attention") {
          result.push_back(node.attributes.number("dropout_p"));
        }
      }
      return result;
    };
    // Embedding; then per block attention, its projection, feed-forward.
    CHECK(probabilities(import(text)) == std::vector<double>{0.3, 0.4, 0.2, 0.2, 0.4, 0.2, 0.2});
    CHECK(probabilities(import(text, {.dropout = 0})) == std::vector<double>(7, 0.0));
  }

  TEST_CASE("key-value heads default to all heads and a head width may be given") {
    // q, k, v and o of 64 * 64 each per layer, instead of k and v of 64 * 32.
    const std::int64_t grouped = import(std::string(kLlama)).parameter_count().count;
    CHECK(import(with(kLlama, "num_key_value_heads", "")).parameter_count().count ==
          grouped + 2 * 2 * 64 * 32);
    // Heads of width 32 rather than 16 double q, k, v and o: 64 * (64 + 32 + 32 + 64) per layer.
    CHECK(import(with(kLlama, "head_dim", "32")).parameter_count().count == grouped + 2 * 64 * 192);
  }

  TEST_CASE("architectures says which head, and an unknown one lists those that are known") {
    const std::string bert = R"({
  "model_type": "bert", "hidden_size": 64, "intermediate_size": 96, "vocab_size": 100,
  "num_hidden_layers": 1, "num_attention_heads": 4, "max_position_embeddings": 16,
  "architectures": ["HEAD"]
})";
    const auto head = [&](std::string_view name) {
      std::string text = bert;
      return text.replace(text.find("HEAD"), 4, name);
    };
    CHECK(import(head("BertForMaskedLM")).tensors[import(head("BertForMaskedLM")).logits].shape ==
          Shape{1, 16, 100});
    const Graph classifier = import(with(head("BertForSequenceClassification"), "num_labels", "7"));
    CHECK(classifier.tensors[classifier.logits].shape == Shape{1, 7});
    CHECK(error_of(head("BertForMultipleChoice")) ==
          "config.json:4:20: architectures: 'BertForMultipleChoice' cannot be imported; known for "
          "this model_type are BertForMaskedLM, BertForSequenceClassification, "
          "BertForTokenClassification, BertForQuestionAnswering, BertModel");
  }

  TEST_CASE("a class with another head than the language model's is not taken for it") {
    CHECK(import(with(kLlama, "architectures", "[\"LlamaForCausalLM\"]")).parameter_count() ==
          import(std::string(kLlama)).parameter_count());
    for (const char* name : {"LlamaForSequenceClassification", "LlamaModel", "Foo"}) {
      const std::string error =
          error_of(with(kLlama, "architectures", fmt::format("[\"{}\"]", name)));
      CHECK(error.find("architectures: ") != std::string::npos);
      CHECK(error.find("has another head") != std::string::npos);
    }
    const std::string gpt2 =
        R"({"model_type": "gpt2", "vocab_size": 100, "n_embd": 64, "n_layer": 2, "n_head": 2, "n_positions": 64, "add_cross_attention": true})";
    CHECK(error_of(gpt2).find("add_cross_attention: ") != std::string::npos);
  }

  TEST_CASE("a router sends every token to so many experts, evenly") {
    std::string text = with(kLlama, "model_type", "\"mixtral\"");
    text = with(text, "num_local_experts", "3");
    text = with(text, "num_experts_per_tok", "2");
    const Graph graph = import(text);
    // 16 tokens to 2 experts each are 32 visits: 11, 11 and 10. Two layers.
    std::vector<std::int64_t> visits;
    for (const Node& node : graph.nodes) {
      if (node.family->name == "nonzero") visits.push_back(node.attributes.integer("count"));
    }
    CHECK(visits == std::vector<std::int64_t>{11, 11, 10, 11, 11, 10});
    // Three more gates of 64 * 3 and two more feed-forward layers of 3 * 64 * 96 per layer.
    CHECK(graph.parameter_count().count ==
          import(std::string(kLlama)).parameter_count().count + 2 * (64 * 3 + 2 * 3 * 64 * 96));
    CHECK(error_of(with(text, "num_experts_per_tok", "4"))
              .find("num_experts_per_tok: expected an integer from 1 to 3") != std::string::npos);
  }

  TEST_CASE("gpt_neox turns only the first part of each head") {
    const std::string neox = R"({
  "model_type": "gpt_neox",
  "vocab_size": 100, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 1,
  "num_attention_heads": 4, "max_position_embeddings": 16
})";
    const Graph partial = import(neox);
    for (const Node& node : partial.nodes) {
      if (node.family->name == "rotary") {
        CHECK(partial.tensors[node.outputs[0]].shape == Shape{1, 4, 16, 4});  // a quarter of 16
      }
    }
    CHECK(count_of(partial, "cat") == 2);  // for queries and keys
    CHECK(count_of(import(with(neox, "rotary_pct", "1.0")), "cat") == 0);
    CHECK(error_of(with(neox, "rotary_pct", "0.2")) ==
          "config.json:5:17: rotary_pct: rotary positions would turn 3 of the 16 elements of a "
          "head; they turn pairs, so that must be even and at least 2");
  }

  TEST_CASE("biases of attention and feed-forward layers are read") {
    const std::int64_t plain = import(std::string(kLlama)).parameter_count().count;
    // q 64, k 32, v 32, o 64 per layer
    CHECK(import(with(kLlama, "attention_bias", "true")).parameter_count().count ==
          plain + 2 * 192);
    // gate 96, up 96, down 64 per layer
    CHECK(import(with(kLlama, "mlp_bias", "true")).parameter_count().count == plain + 2 * 256);
  }
}

TEST_SUITE("golden") {
  // Hugging Face's num_parameters(), tied embeddings once.
  TEST_CASE("published configs have exactly their published parameters") {
    struct Case {
      std::string name;
      std::int64_t parameters;
    };
    for (const Case& c : {Case{"gpt2", 124'439'808},
                          {"gpt2-medium", 354'823'168},
                          {"gpt2-xl", 1'557'611'200},
                          {"llama-2-7b", 6'738'415'616},
                          {"llama-2-70b", 68'976'648'192},
                          {"llama-3-8b", 8'030'261'248},
                          {"llama-3.2-1b", 1'235'814'400},
                          {"qwen2.5-0.5b", 494'032'768},
                          {"mixtral-8x7b", 46'702'792'704},
                          {"t5-base", 222'903'552}}) {
      CAPTURE(c.name);
      const Graph graph =
          import_hf_config(test::data_path("models/hf/") + c.name + ".json", ModelOptions{});
      CHECK(graph.parameter_count().count == c.parameters);
      CHECK(graph.name == c.name);
      // The preset of that name is the same model.
      const Graph preset = find_preset(c.name).build(Decoder(), ModelOptions{});
      CHECK(preset.parameter_count().count == c.parameters);
      CHECK(preset.nodes.size() == graph.nodes.size());
      CHECK(preset.storages.size() == graph.storages.size());
    }
  }

  TEST_CASE("configs without a preset have exactly their published parameters") {
    struct Case {
      std::string name;
      std::int64_t parameters;
      int blocks;
    };
    for (const Case& c : {Case{"gpt-neox-20b", 20'554'567'680, 44},
                          // num_parameters() of BertForMaskedLM
                          {"bert-base-uncased", 109'514'298, 12},
                          // 85,798,656 without the classifier of 768 * 2 + 2: the config names no
                          // labels, and PretrainedConfig then has two
                          {"vit-base-patch16-224", 85'800'194, 12}}) {
      CAPTURE(c.name);
      const Graph graph =
          import_hf_config(test::data_path("models/hf/") + c.name + ".json", ModelOptions{});
      CHECK(graph.parameter_count().count == c.parameters);
      CHECK(graph.blocks == c.blocks);
    }
  }

  // Published sizes of other members of the families, as text: no file of their own is needed.
  TEST_CASE("other configs of the same families need no new code") {
    struct Case {
      std::string_view config;
      std::int64_t parameters;
    };
    for (const Case& c :
         {Case{R"({"model_type": "opt", "vocab_size": 50272, "hidden_size": 768, "ffn_dim": 3072,
                   "num_hidden_layers": 12, "num_attention_heads": 12,
                   "max_position_embeddings": 2048, "word_embed_proj_dim": 768})",
               125'239'296},
          {R"({"model_type": "opt", "vocab_size": 50272, "hidden_size": 1024, "ffn_dim": 4096,
               "num_hidden_layers": 24, "num_attention_heads": 16, "max_position_embeddings": 2048,
               "word_embed_proj_dim": 512, "do_layer_norm_before": false})",
           331'196'416},
          {R"({"model_type": "mistral", "vocab_size": 32000, "hidden_size": 4096,
               "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32,
               "num_key_value_heads": 8, "max_position_embeddings": 32768, "sliding_window": 4096})",
           7'241'732'096},
          {R"({"model_type": "qwen2", "vocab_size": 152064, "hidden_size": 3584,
               "intermediate_size": 18944, "num_hidden_layers": 28, "num_attention_heads": 28,
               "num_key_value_heads": 4, "max_position_embeddings": 32768})",
           7'615'616'512},
          // pythia-160m
          {R"({"model_type": "gpt_neox", "vocab_size": 50304, "hidden_size": 768,
               "intermediate_size": 3072, "num_hidden_layers": 12, "num_attention_heads": 12,
               "hidden_act": "gelu", "rotary_pct": 0.25, "use_parallel_residual": true})",
           162'322'944},
          // flan-t5-base: gated, a head of its own
          {R"({"model_type": "t5", "vocab_size": 32128, "d_model": 768, "d_kv": 64, "d_ff": 2048,
               "num_layers": 12, "num_heads": 12, "feed_forward_proj": "gated-gelu",
               "tie_word_embeddings": false})",
           247'577'856},
          {R"({"model_type": "bert", "architectures": ["BertModel"], "vocab_size": 30522,
               "hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12,
               "num_attention_heads": 12})",
           109'482'240},
          {R"({"model_type": "vit", "hidden_size": 768, "intermediate_size": 3072,
               "num_hidden_layers": 12, "num_attention_heads": 12, "num_labels": 1000})",
           86'567'656}}) {
      CAPTURE(c.config);
      CHECK(import(std::string(c.config)).parameter_count().count == c.parameters);
    }
  }
}

}  // namespace
}  // namespace tidemark::hf_config_test
