#include "graph/models/preset.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "graph/autodiff/differentiate.hpp"
#include "graph/core/document.hpp"
#include "graph/core/errors.hpp"
#include "graph/models/model_limits.hpp"
#include "graph/operators/family.hpp"

namespace tidemark::preset_test {
namespace {

ModelOptions options_with(DType dtype = DType::kFloat32,
                          AttentionKind attention = AttentionKind::kMath) {
  return {.micro_batch = 2, .dtype = dtype, .attention = attention};
}

// Builds a preset with overrides as a user writes them: "{layers: 24}".
Graph build(std::string_view name, std::string_view overrides = "{}",
            const ModelOptions& options = options_with()) {
  const Value document = parse_document(overrides, "s.yaml");
  return find_preset(name).build(Decoder(document), options);
}

std::string error_of(std::string_view name, std::string_view overrides,
                     const ModelOptions& options = options_with()) {
  try {
    static_cast<void>(build(name, overrides, options));
  } catch (const UserError& error) {
    return error.what();
  }
  return "accepted";
}

Bytes bytes_of(const Graph& graph, Role role) {
  Bytes sum;
  for (const Storage& storage : graph.storages) {
    if (storage.role == role) sum += storage.bytes;
  }
  return sum;
}

std::int64_t count_of(const Graph& graph, std::string_view family) {
  return std::count_if(graph.nodes.begin(), graph.nodes.end(),
                       [&](const Node& node) { return node.family->name == family; });
}

TEST_SUITE("unit") {
  TEST_CASE("a preset that nobody knows is answered with the nearest name") {
    CHECK_THROWS_WITH_AS(static_cast<void>(find_preset("gtp2", {"s.yaml", 3, 8}, "model")),
                         "s.yaml:3:8: model: no model is called 'gtp2'; did you mean 'gpt2'?",
                         UserError);
    CHECK(is_preset("llama-3-8b"));
    CHECK_FALSE(is_preset("llama-9-8b"));
  }

  TEST_CASE("names of presets are unique") {
    std::vector<std::string> names;
    for (const ModelPreset& preset : all_presets())
      names.push_back(preset.name);
    std::sort(names.begin(), names.end());
    CHECK(std::adjacent_find(names.begin(), names.end()) == names.end());
  }

  TEST_CASE("every preset describes its parameters") {
    for (const ModelPreset& preset : all_presets()) {
      CAPTURE(preset.name);
      CHECK(parameters_of(preset).size() >= 3);
      CHECK_FALSE(preset.summary.empty());
    }
    const std::vector<ParameterNote> notes = parameters_of(find_preset("gpt2-xl"));
    CHECK(notes.front().name == "layers");
    CHECK(notes.front().default_value == "48");
    CHECK(parameters_of(find_preset("mlp")).front().default_value == "[784, 1024, 1024, 512, 10]");
    CHECK(parameters_of(find_preset("resnet101")).front().default_value == "[3, 4, 23, 3]");
  }

  TEST_CASE("every parameter of a preset can be overridden") {
    // A block of gpt2 has 12 * 768^2 + 13 * 768 = 7,087,872 parameters.
    CHECK(build("gpt2", "{layers: 24}").parameter_count().count == 124'439'808 + 12 * 7'087'872);
    CHECK(build("gpt2", "{layers: 24}").blocks == 24);
    // An untied head is one more matrix of 50257 * 768.
    CHECK(build("gpt2", "{tie: false}").parameter_count().count == 124'439'808 + 50'257 * 768);
    // 512 * 1000 + 1000 becomes 512 * 10 + 10.
    CHECK(build("resnet18", "{classes: 10}").parameter_count().count ==
          11'689'512 - 513'000 + 5'130);
    // 3 * 5 + 5 + 5 * 2 + 2
    CHECK(build("mlp", "{widths: [3, 5, 2]}").parameter_count().count == 32);
  }

  TEST_CASE("unknown parameters are errors with the nearest known one") {
    CHECK(error_of("gpt2", "{layer: 24}") ==
          "s.yaml:1:2: layer: unknown key; did you mean 'layers'?");
  }

  TEST_CASE("sizes that do not fit together are errors that name the nearest that do") {
    CHECK(error_of("gpt2", "{heads: 7}") ==
          "s.yaml:1:9: heads: 7 heads do not divide a width of 768; the nearest that do are 6 and "
          "8");
    CHECK(error_of("gpt2", "{heads: 1000}") ==
          "s.yaml:1:9: heads: 1000 heads do not divide a width of 768; the nearest that does is "
          "768");
    CHECK(error_of("llama", "{kv_heads: 3}") ==
          "s.yaml:1:12: kv_heads: 3 key-value heads do not divide 8 attention heads; the nearest "
          "that do are 2 and 4");
    CHECK(error_of("llama", "{head_width: 7}") ==
          "s.yaml:1:14: head_width: each head would be 7 wide; rotary positions turn pairs of "
          "elements, so it must be even");
    CHECK(error_of("mlp", "{widths: [3]}") ==
          "s.yaml:1:10: widths: expected at least two widths: of the input and of the result");
    CHECK(error_of("mlp", "{activation: gelu, in_place: true}") ==
          "s.yaml:1:30: in_place: torch has no gelu in place; relu and silu have it");
    CHECK(error_of("resnet50", "{blocks: [3, 4]}") ==
          "s.yaml:1:10: blocks: expected 4 stages, found 2");
    CHECK(error_of("resnet18", "{groups: 2}") ==
          "s.yaml:1:10: groups: only bottleneck blocks have groups and a width; write bottleneck: "
          "true");
    CHECK(error_of("vit_b_16", "{heads: 7}") ==
          "s.yaml:1:9: heads: 7 heads do not divide a width of 768; the nearest that do are 6 and "
          "8");
    CHECK(error_of("vit_b_16", "{patch: 15}") ==
          "s.yaml:1:9: patch: 15 pixels per patch do not divide an image of 224; the nearest that "
          "do are 14 and 16");
    CHECK(error_of("bert-base", "{width: 100}") ==
          "s.yaml:1:1: heads: 12 heads do not divide a width of 100; the nearest that do are 10 "
          "and 20");
    CHECK(error_of("mixtral-8x7b", "{experts: 1}") ==
          "s.yaml:1:1: experts_per_token: a token cannot take 2 of 1 experts");
    CHECK(error_of("vgg16", "{convolutions: [1]}") ==
          "s.yaml:1:16: convolutions: expected 5 stages, found 1");
    ModelOptions odd = options_with();
    odd.image = 130;
    CHECK(error_of("unet", "{}", odd) ==
          "training.image: an image of 130 pixels cannot be halved 3 times; the nearest sizes that "
          "can are 128 and 136");
    CHECK(error_of("vit_b_16", "{}", odd) ==
          "training.image: patches of 16 pixels do not tile an image of 130; the nearest sizes "
          "that they do are 128 and 144");
  }

  TEST_CASE("absurd sizes are errors and neither hang nor fill the memory") {
    CHECK(error_of("gpt2", "{layers: 1000000000}").starts_with("s.yaml:1:10: layers: expected"));
    CHECK(error_of("gpt2", "{width: 1000000000000}").starts_with("s.yaml:1:9: width: expected"));
    CHECK(error_of("mlp", "{widths: [1, -5]}").starts_with("s.yaml:1:14: widths[1]: expected"));
    CHECK(error_of("gpt2", "{layers: 0}").starts_with("s.yaml:1:10: layers: expected"));
    ModelOptions options = options_with();
    options.micro_batch = std::int64_t{1} << 40;
    CHECK(error_of("gpt2", "{}", options) ==
          "training.micro_batch: expected an integer from 1 to 16777216, found 1099511627776");
    // 2^24 samples of 12 heads and 2^27 tokens: the scores alone have 2^78 * 12 elements.
    options.micro_batch = kMaxSamples;
    options.sequence = kMaxSequence;
    CHECK(error_of("gpt", "{sequence: 134217728}", options).find("more elements than any device") !=
          std::string::npos);
    // A hidden state of 2^24 * 2^7 * 2^20 * 4 B = 2^53 B could be addressed, all of them not.
    CHECK(error_of("gpt", "{width: 1048576}",
                   {.micro_batch = kMaxSamples, .dtype = DType::kFloat32}) ==
          "the tensors of 'gpt' take more than 64 PiB together; no model of that size can be "
          "simulated");
  }

  TEST_CASE("a learned position table limits the sequence, rotary positions do not") {
    ModelOptions options = options_with(DType::kBFloat16, AttentionKind::kFlash);
    options.sequence = 2000;
    CHECK(error_of("gpt2", "{}", options) ==
          "training.sequence: 2000 tokens are more than the 1024 positions that the model has "
          "learned; at most 1024 fit");
    CHECK(build("llama", "{}", options).tokens == 2 * 2000);
  }

  TEST_CASE("the sequence is the model's maximum but at most 2048 by default") {
    const ModelOptions options = options_with(DType::kBFloat16, AttentionKind::kFlash);
    CHECK(build("gpt2", "{layers: 1}", options).tokens == 2 * 1024);
    CHECK(build("llama-3-8b", "{layers: 1}", options).tokens == 2 * 2048);
  }

  TEST_CASE("dropout is the model's unless training overrides it") {
    ModelOptions options = options_with();
    options.dropout = 0.5;
    const Graph overridden = build("gpt", "{layers: 1, dropout: 0.1}", options);
    const Graph own = build("gpt", "{layers: 1, dropout: 0.1}");
    for (const Node& node : overridden.nodes) {
      if (node.family->name == "dropout") CHECK(node.attributes.number("p") == 0.5);
    }
    for (const Node& node : own.nodes) {
      if (node.family->name == "dropout") CHECK(node.attributes.number("p") == 0.1);
    }
    // embedding; attention, attention output, feed-forward
    CHECK(count_of(own, "dropout") == 4);
  }

  TEST_CASE("nanoGPT has an fp32 mask per block with math attention and none with flash") {
    CHECK(bytes_of(build("gpt"), Role::kBuffer) == Bytes(4 * 128 * 128 * 4));
    CHECK(bytes_of(build("gpt", "{}", options_with(DType::kFloat32, AttentionKind::kFlash)),
                   Role::kBuffer) == Bytes(0));
  }

  TEST_CASE("Hugging Face's gpt2 has a bool mask per block and takes the loss in fp32") {
    const Graph graph =
        build("gpt2", "{layers: 2}", options_with(DType::kBFloat16, AttentionKind::kFlash));
    CHECK(bytes_of(graph, Role::kBuffer) == Bytes(2 * 1024 * 1024));
    const Node& log_softmax =
        *std::find_if(graph.nodes.begin(), graph.nodes.end(),
                      [](const Node& node) { return node.family->name == "log_softmax"; });
    CHECK(graph.tensors[log_softmax.inputs[0]].dtype == DType::kFloat32);
    CHECK(graph.tensors[graph.logits].dtype == DType::kBFloat16);
  }

  TEST_CASE("grouped key-value heads are repeated by a copy, full heads are not") {
    const ModelOptions options = options_with(DType::kBFloat16, AttentionKind::kFlash);
    CHECK(count_of(build("llama", "{layers: 3, kv_heads: 2}", options), "expand") == 6);
    CHECK(count_of(build("llama", "{layers: 3, kv_heads: 8}", options), "expand") == 0);
  }

  TEST_CASE("queries, keys and values are variables of the attention module") {
    const Graph graph = build("gpt", "{layers: 1}");
    std::vector<StorageId> held;
    for (const LocalVariable& local : graph.locals)
      held.push_back(graph.tensors[local.tensor].storage);
    // q, k and v share the storage of the fused projection [2, 128, 768].
    const auto fused = std::find_if(held.begin(), held.end(), [&](StorageId id) {
      return graph.storages[id].bytes == Bytes(2 * 128 * 768 * 4);
    });
    REQUIRE(fused != held.end());
    CHECK(std::count(held.begin(), held.end(), *fused) == 3);
  }

  TEST_CASE("a model without a loss ends in its logits") {
    ModelOptions options = options_with();
    options.loss = LossKind::kNone;
    const Graph graph = build("resnet18", "{}", options);
    CHECK_FALSE(graph.loss.valid());
    CHECK(graph.tensors[graph.logits].shape == Shape{2, 1000});
  }
}

TEST_SUITE("golden") {
  // torchvision's and Hugging Face's own counts, tied embeddings once.
  TEST_CASE("presets have exactly the parameters of the published models") {
    struct Case {
      std::string_view name;
      std::int64_t parameters;
      int blocks;
    };
    for (const Case& c : {Case{"resnet18", 11'689'512, 8},
                          {"resnet34", 21'797'672, 16},
                          {"resnet50", 25'557'032, 16},
                          {"resnet101", 44'549'160, 33},
                          {"resnet152", 60'192'808, 50},
                          {"resnext50_32x4d", 25'028'904, 16},
                          {"resnext101_32x8d", 88'791'336, 33},
                          {"resnext101_64x4d", 83'455'272, 33},
                          {"wide_resnet50_2", 68'883'240, 16},
                          {"wide_resnet101_2", 126'886'696, 33},
                          {"vgg11", 132'863'336, 5},
                          {"vgg13", 133'047'848, 5},
                          {"vgg16", 138'357'544, 5},
                          {"vgg19", 143'667'240, 5},
                          {"vgg11_bn", 132'868'840, 5},
                          {"vgg13_bn", 133'053'736, 5},
                          {"vgg16_bn", 138'365'992, 5},
                          {"vgg19_bn", 143'678'248, 5},
                          {"densenet121", 7'978'856, 58},
                          {"densenet161", 28'681'000, 78},
                          {"densenet169", 14'149'480, 82},
                          {"densenet201", 20'013'928, 98},
                          {"mobilenet_v2", 3'504'872, 17},
                          {"vit_b_16", 86'567'656, 12},
                          {"vit_b_32", 88'224'232, 12},
                          {"vit_l_16", 304'326'632, 24},
                          {"vit_l_32", 306'535'400, 24},
                          {"vit_h_14", 632'045'800, 32},
                          {"bert-base", 109'514'298, 12},
                          {"bert-large", 335'174'458, 24},
                          {"t5-small", 60'506'624, 12},
                          {"t5-base", 222'903'552, 24},
                          {"t5-large", 737'668'096, 48},
                          {"llama-2-70b", 68'976'648'192, 80},
                          {"mistral-7b", 7'241'732'096, 32},
                          {"mixtral-8x7b", 46'702'792'704, 32},
                          {"qwen2.5-0.5b", 494'032'768, 24},
                          {"qwen2.5-7b", 7'615'616'512, 28},
                          {"gpt2", 124'439'808, 12},
                          {"gpt2-medium", 354'823'168, 24},
                          {"gpt2-large", 774'030'080, 36},
                          {"gpt2-xl", 1'557'611'200, 48},
                          {"llama-2-7b", 6'738'415'616, 32},
                          {"llama-3-8b", 8'030'261'248, 32},
                          {"llama-3.1-405b", 405'853'388'800, 126},
                          {"llama-3.2-1b", 1'235'814'400, 16}}) {
      CAPTURE(c.name);
      const Graph graph =
          build(c.name, "{}", options_with(DType::kBFloat16, AttentionKind::kFlash));
      CHECK(graph.parameter_count().count == c.parameters);
      CHECK(graph.trainable_parameter_count().count == c.parameters);
      CHECK(graph.blocks == c.blocks);
      CHECK(graph.name == c.name);
    }
  }

  TEST_CASE("groups and widths of the 3x3 convolution make ResNeXt and Wide ResNet") {
    // torchvision: resnext50_32x4d, wide_resnet50_2.
    CHECK(build("resnet50", "{groups: 32, width_per_group: 4}").parameter_count().count ==
          25'028'904);
    CHECK(build("resnet50", "{width_per_group: 128}").parameter_count().count == 68'883'240);
  }

  // The ground truth's models: gpt_L4C256, gpt untied, mlp.
  TEST_CASE("the small models of the ground truth have its sizes") {
    const Graph gpt = build("gpt");
    CHECK(gpt.parameter_count().count == 4'240'896);
    CHECK(bytes_of(gpt, Role::kBuffer) == Bytes(262'144));
    CHECK(bytes_of(gpt, Role::kInput) == Bytes(4'096));  // tokens and targets, 2 * 128 * 8 each
    CHECK(build("bert").parameter_count().count == 5'294'080);
    CHECK(build("vit").parameter_count().count == 1'954'084);
    const Graph mlp = build("mlp", "{}", {.micro_batch = 256, .dtype = DType::kFloat32});
    CHECK(mlp.parameter_count().count == 2'383'370);
    CHECK(bytes_of(mlp, Role::kInput) == Bytes(804'864));
    const Graph resnet = build("resnet18");
    CHECK(bytes_of(resnet, Role::kBuffer) == Bytes(38'560));
    CHECK(bytes_of(resnet, Role::kInput) == Bytes(1'204'240));
  }

  // Measured on PyTorch 1.13.1 (CPU): saved.unique_activation_bytes of the cases named.
  TEST_CASE("autograd keeps of each model exactly what PyTorch was seen to keep") {
    struct Case {
      std::string_view measured;
      std::string_view preset;
      std::string_view overrides;
      std::int64_t micro_batch;
      Bytes saved;
      std::optional<std::int64_t> sequence = {};
    };
    const FrameworkRules* rules = find_framework("torch-1.13-cpu");
    REQUIRE(rules != nullptr);
    for (const Case& c :
         // With x = 2 * 128 * 256 * 4 B, A = 2 * 8 * 128^2 * 4 B and st = 8 * 2 * 128 B a block is
         // 16x + A + 2st + 128^2 + 8 = 5,263,368 B; embedding, ln_f and loss are 4,721,668 B.
         {Case{"gpt_L4C256_b2_T128_p0", "gpt", "{}", 2, Bytes(4 * 5'263'368 + 4'721'668)},
          {"gpt_L4C256_b2_T128_p01", "gpt", "{dropout: 0.1}", 2, Bytes(36'523'044)},
          {"gpt_L4C256_b2_T128_p0_untied", "gpt", "{tie: false}", 2, Bytes(25'775'140)},
          {"gpt_L4C256_b2_T128_p0_newgelu", "gpt", "{activation: new_gelu}", 2, Bytes(38'358'148)},
          // 256 * (1024 + 1024 + 512) * 4 + 256 * 10 * 4 + 4
          {"mlp_b256_sgd_none", "mlp", "{}", 256, Bytes(2'631'684)},
          {"mlp_b256_relu_inplace", "mlp", "{in_place: true}", 256, Bytes(2'631'684)},
          {"mlp_b256_gelu", "mlp", "{activation: gelu}", 256, Bytes(5'253'124)},
          // 21,581,728 per sample + 38,404
          {"resnet18_b2_sgdm_none", "resnet18", "{}", 2, Bytes(43'201'860)},
          {"resnet50_b1_sgdm_none", "resnet50", "{}", 1, Bytes(85'523'876)},
          {"resnet50_b2_sgdm_none", "resnet50", "{}", 2, Bytes(170'835'268)},
          // A block is 13x + 2A + 4st + 8 with x = 262,144 B, A = 1,048,576 B, st = 1,024 B.
          {"bert_L4C256_b2_T128_p0", "bert", "{dropout: 0}", 2, Bytes(25'711'652)},
          {"bert_L4C256_b2_T128_p01", "bert", "{}", 2, Bytes(40'653'860)},
          {"bert_L4C256_b2_T128_p01_relu", "bert", "{activation: relu}", 2, Bytes(40'653'860)},
          {"bert_base_b1_T128_p01", "bert",
           "{layers: 12, width: 768, heads: 12, vocab: 30522, sequence: 512}", 1,
           Bytes(148'955'236), 128},
          {"vit_small_b4_fp32", "vit", "{}", 4, Bytes(7'864'580)},
          {"vit_b_16_b1_adamw_none", "vit_b_16", "{}", 1, Bytes(139'803'180)},
          // 72,757,152 per sample + 4
          {"vgg16_b1_sgd_none", "vgg16", "{}", 1, Bytes(72'757'156)},
          {"mobilenet_v2_b1_sgdm_none", "mobilenet_v2", "{}", 1, Bytes(77'998'756)},
          {"mobilenet_v2_b2_sgdm_none", "mobilenet_v2", "{}", 2, Bytes(155'861'060)},
          {"unet_b1_128", "unet", "{}", 1, Bytes(41'888'772)}}) {
      CAPTURE(c.measured);
      if (c.preset == "unet" && find_family("conv_transpose2d") == nullptr) continue;
      ModelOptions options = options_with();
      options.micro_batch = c.micro_batch;
      options.sequence = c.sequence;
      const TrainingGraph step = differentiate(build(c.preset, c.overrides, options), *rules, {});
      Bytes saved;
      for (const Storage& storage : step.storages) {
        if (storage.role == Role::kSavedActivation) saved += storage.bytes;
      }
      CHECK(saved == c.saved);
    }
  }
}

}  // namespace
}  // namespace tidemark::preset_test
