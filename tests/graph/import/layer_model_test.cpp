#include "graph/import/layer_model.hpp"

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include <doctest/doctest.h>

#include "graph/autodiff/differentiate.hpp"
#include "graph/core/document.hpp"
#include "graph/core/errors.hpp"
#include "graph/models/layers/layers.hpp"
#include "graph/models/preset.hpp"
#include "graph/operators/family.hpp"
#include "tests/support/paths.hpp"

namespace tidemark::layer_model_test {
namespace {

Graph build(const std::string& text, const ModelOptions& options = {},
            const std::string& sizes = "{}") {
  const Value document = parse_document(text, "m.yaml");
  const Value overrides = parse_document(sizes, "s.yaml");
  return build_layer_model(Decoder(document), Decoder(overrides, "model.sizes"), "m", options);
}

std::string error_of(const std::string& text, const ModelOptions& options = {},
                     const std::string& sizes = "{}") {
  try {
    static_cast<void>(build(text, options, sizes));
  } catch (const UserError& error) {
    return error.what();
  }
  return "accepted";
}

// A model of `layers` on images [batch, 3, 8, 8] and tokens [batch, 4].
std::string on_images(const std::string& layers) {
  return "inputs: {images: [batch, 3, 8, 8], tokens: {shape: [batch, 4], type: int64}}\n"
         "sizes: {width: 16}\n"
         "layers:\n" +
         layers;
}

Shape result_of(const std::string& layers, const std::string& sizes = "{}") {
  const Graph graph = build(on_images(layers), {.micro_batch = 2, .loss = LossKind::kNone}, sizes);
  return graph.tensors[graph.logits].shape;
}

std::string error_in(const std::string& layers) {
  return error_of(on_images(layers), {.micro_batch = 2});
}

std::int64_t count_of(const Graph& graph, std::string_view family) {
  return std::count_if(graph.nodes.begin(), graph.nodes.end(),
                       [&](const Node& node) { return node.family->name == family; });
}

TEST_SUITE("unit") {
  TEST_CASE("layers follow one another and may be words, short forms or mappings") {
    CHECK(result_of(R"(
- conv2d: {channels: width, kernel: 3, padding: 1}
- batch_norm
- relu: {in_place: true}
- max_pool2d: 2
- flatten
- linear: 10
)") == Shape{2, 10});
    CHECK(result_of("- {from: tokens, embedding: {rows: 100, width: width}}\n"
                    "- attention: 4\n- transpose: [1, 2]\n- mean: [1]\n- select: {index: 3}\n") ==
          Shape{2});
  }

  TEST_CASE("sizes are arithmetic with names, and a scenario changes them") {
    CHECK(result_of("- conv2d: (width - 4) / 2 * 3\n") == Shape{2, 18, 8, 8});
    CHECK(result_of("- conv2d: width + 1\n", "{width: 7}") == Shape{2, 8, 8, 8});
    CHECK(result_of("- reshape: [batch, -1, 8]\n") == Shape{2, 24, 8});
    CHECK(error_of(on_images("- flatten\n"), {}, "{with: 3}") ==
          "s.yaml:1:2: model.sizes.with: unknown key; did you mean 'width'?");
    CHECK(error_in("- conv2d: 2 * widht\n") ==
          "m.yaml:4:11: layers[0].conv2d.channels: '2 * widht' is no size: there is no size named "
          "'widht'; did you mean 'width'?");
    CHECK(error_in("- conv2d: width / 3\n") ==
          "m.yaml:4:11: layers[0].conv2d.channels: 'width / 3' is no size: 3 does not divide 16");
    CHECK(error_in("- conv2d: width - 16\n") ==
          "m.yaml:4:11: layers[0].conv2d.channels: expected an integer from 1 to 1048576, found "
          "'width - 16', which is 0");
    CHECK(error_in("- conv2d: 4294967296 * 4294967296\n").find("63 bits") != std::string::npos);
    CHECK(error_in("- conv2d: 2.5\n").find("whole numbers") != std::string::npos);
    CHECK(error_in("- conv2d: (2 + 3\n").find("')' is missing") != std::string::npos);
  }

  TEST_CASE("blocks are numbered and repeated, and their index is a size") {
    const Graph graph = build(on_images(R"(
- repeat:
    times: 3
    index: i
    layers: [{conv2d: width * (i + 1), name: conv}]
  name: stage
- block: [relu]
)"),
                              {.loss = LossKind::kNone});
    CHECK(graph.blocks == 4);
    CHECK(graph.tensors[graph.logits].shape == Shape{1, 48, 8, 8});
    const auto named = [&](std::string_view name) {
      return std::any_of(graph.layers.begin(), graph.layers.end(),
                         [&](const Layer& layer) { return layer.name == name; });
    };
    CHECK(named("stage.2.conv"));
    CHECK(named("1.0"));
  }

  TEST_CASE("residuals add what their layers return, through a projection where requested") {
    CHECK(result_of("- residual: [relu]\n") == Shape{2, 3, 8, 8});
    CHECK(error_in("- residual: [{conv2d: 5}]\n") ==
          "m.yaml:4:13: layers[0].residual: its layers turn [2, 3, 8, 8] into [2, 5, 8, 8], which "
          "cannot be added to it; with `project: true` channels may differ");
    const std::string projected =
        "- residual: {project: true, layers: [{conv2d: {channels: 5, kernel: 2, stride: 2}}]}\n";
    CHECK(result_of(projected) == Shape{2, 5, 4, 4});
  }

  TEST_CASE("taps are names for results, joined by add, multiply, cat and matmul") {
    CHECK(
        result_of("- {conv2d: 5, tap: a}\n- {conv2d: 7, from: images, tap: b}\n- cat: [a, b]\n") ==
        Shape{2, 19, 8, 8});
    CHECK(result_of("- {tap: x}\n- multiply: {layers: [sigmoid]}\n- add: x\n") ==
          Shape{2, 3, 8, 8});
    CHECK(result_of("- flatten\n- {linear: 6, tap: a}\n- matmul: {with: a, transpose: true}\n") ==
          Shape{2, 2});
    CHECK(error_in("- cat: imagse\n") ==
          "m.yaml:4:8: layers[0].cat.with: no tap is called 'imagse'; did you mean 'images'?");
    CHECK(error_in("- {conv2d: 5}\n- add: images\n") ==
          "m.yaml:5:3: layers[1].add: 1: add: shapes [2, 5, 8, 8] and [2, 3, 8, 8] do not "
          "broadcast: 5 and 3 differ at axis -3 (inputs have shapes [2, 5, 8, 8], [2, 3, 8, 8])");
    CHECK(error_in("- flatten\n- matmul: images\n") ==
          "m.yaml:5:11: layers[1].matmul: [2, 192] cannot be multiplied by [2, 3, 8, 8]");
  }

  TEST_CASE("modules are layers with parameters and taps of their own") {
    const std::string modules =
        "modules:\n"
        "  twice: {parameters: [n], layers: [{conv2d: n, tap: t}, {cat: t}]}\n"
        "  flat: {layers: [flatten]}\n"
        "  self: {layers: [self]}\n";
    const auto shape = [&](const std::string& layers) {
      const Graph graph = build(modules + on_images(layers), {.loss = LossKind::kNone});
      return graph.tensors[graph.logits].shape;
    };
    CHECK(shape("- twice: 4\n- twice: {n: width}\n") == Shape{1, 32, 8, 8});
    CHECK(shape("- flat\n") == Shape{1, 192});
    CHECK(error_of(modules + on_images("- twice: 4\n- cat: t\n"))
              .find("no tap is called 't'; known are images, tokens") != std::string::npos);
    CHECK(error_of(modules + on_images("- twice\n")).find("twice") != std::string::npos);
    CHECK(error_of(modules + on_images("- self\n")).find("does a module use itself?") !=
          std::string::npos);
  }

  TEST_CASE("convolutions work on signals, images and volumes") {
    const auto parameters_and_shape = [](const std::string& text) {
      const Graph graph = build(text, {.micro_batch = 2, .loss = LossKind::kNone});
      return std::pair(graph.trainable_parameter_count().count, graph.tensors[graph.logits].shape);
    };
    // (20 - 5) / 2 + 1 = 8 and (8 - 1) * 2 + 2 = 16 samples; weights [6, 4 / 2, 5], [6, 4, 2].
    const std::string signal =
        "inputs: {signal: [batch, 4, 20]}\n"
        "layers:\n- conv1d: {channels: 6, kernel: 5, stride: 2, groups: 2}\n";
    CHECK(parameters_and_shape(signal) == std::pair(std::int64_t{60 + 6}, Shape{2, 6, 8}));
    CHECK(parameters_and_shape(signal +
                               "- conv_transpose1d: {channels: 4, kernel: 2, stride: 2}\n") ==
          std::pair(std::int64_t{60 + 6 + 48 + 4}, Shape{2, 4, 16}));
    // Weights [8, 3, 3, 3, 3] and [8, 2, 2, 2, 2].
    const std::string volume =
        "inputs: {video: [batch, 3, 4, 8, 8]}\n"
        "layers:\n- conv3d: {channels: 8, kernel: 3, padding: 1, bias: false}\n";
    CHECK(parameters_and_shape(volume) == std::pair(std::int64_t{648}, Shape{2, 8, 4, 8, 8}));
    CHECK(parameters_and_shape(volume +
                               "- conv_transpose3d: {channels: 2, kernel: 2, stride: 2}\n") ==
          std::pair(std::int64_t{648 + 128 + 2}, Shape{2, 2, 8, 16, 16}));
    CHECK(error_in("- conv1d: 4\n") ==
          "m.yaml:4:11: layers[0].conv1d: needs an input with 3 axes, its input has the shape "
          "[2, 3, 8, 8]");
  }

  TEST_CASE("mistakes are errors at their layer") {
    CHECK(error_in("- convd2: 4\n") ==
          "m.yaml:4:3: layers[0].convd2: no layer is called 'convd2'; did you mean 'conv2d'?");
    CHECK(
        error_in("- conv2d: {chanels: 4}\n").starts_with("m.yaml:4:11: layers[0].conv2d.channels"));
    CHECK(error_in("- conv2d: {channels: 4, pading: 4}\n") ==
          "m.yaml:4:25: layers[0].conv2d.pading: unknown key; did you mean 'padding'?");
    CHECK(
        error_in("- {name: a, linear: 4}\n- {name: a, linear: 4}\n") ==
        "m.yaml:5:10: layers[1].name: the layer in line 4 is called 'a' already; names of one list "
        "differ");
    CHECK(error_in("- linear: 4\n- {name: 0, linear: 4}\n").find("called '0' already") !=
          std::string::npos);
    CHECK(error_of("input: {x: [batch, 4]}\nlayers: [linear: 4]") ==
          "m.yaml:1:1: input: unknown key; did you mean 'inputs'?");
    CHECK(error_in("- {conv2d: 4, relu: }\n").find("'conv2d' is given already") !=
          std::string::npos);
    CHECK(error_in("- linear: 4\n- {from: tokens, linear: 4}\n") ==
          "m.yaml:5:26: layers[1].linear: needs numbers, its input [2, 4] holds int64: embed it "
          "first");
    CHECK(error_in("- flatten\n- conv2d: 4\n") ==
          "m.yaml:5:11: layers[1].conv2d: needs an input with 4 axes, its input has the shape "
          "[2, 192]");
    CHECK(
        error_in("- conv2d: {channels: 4, kernel: 9}\n") ==
        "m.yaml:4:3: layers[0].conv2d: 0: conv2d: a kernel that reaches over 9 is larger than the "
        "padded input of 8; it takes a padding of 1 "
        "(inputs have shapes [2, 3, 8, 8], [4, 3, 9, 9], [4])");
    CHECK(error_in("- conv2d: {channels: 4, kernel: 1, groups: 2}\n") ==
          "m.yaml:4:44: layers[0].conv2d.groups: 2 groups do not divide 3 input channels; the "
          "nearest that do are 1 and 3");
    CHECK(
        error_in("- conv2d: 12\n- group_norm: 5\n") ==
        "m.yaml:5:15: layers[1].group_norm.groups: 5 groups do not divide 12 channels; the nearest "
        "that do are 4 and 6");
    CHECK(error_in("- flatten: 2\n- lstm: 0\n")
              .starts_with("m.yaml:5:9: layers[1].lstm.hidden: expected an integer from 1"));
    CHECK(error_in("- attention: 2\n") ==
          "m.yaml:4:14: layers[0].attention.heads: 2 heads do not divide a width of 3; the nearest "
          "that do are 1 and 3");
    CHECK(error_of("layers: [relu]\n").starts_with("m.yaml:1:1: inputs: required key is missing"));
    CHECK(error_of("inputs: {x: [batch, 3]}\n")
              .starts_with("m.yaml:1:1: layers: required key is missing"));
    CHECK(error_of("inputs: {x: [batch, 3]}\nlayers: [relu]\nsize: {}\n") ==
          "m.yaml:3:1: size: unknown key; did you mean 'sizes'?");
  }

  TEST_CASE("absurd sizes are errors and neither hang nor fill the memory") {
    CHECK(error_in("- repeat: {times: 1000000000, layers: [relu]}\n")
              .find("expected an integer from 1 to 4096") != std::string::npos);
    CHECK(error_in("- repeat: {times: 4096, layers: [{repeat: {times: 4096, layers: [relu]}}]}\n")
              .find("more than 200000 layers") != std::string::npos);
    CHECK(error_in("- flatten\n- linear: 1048576\n- linear: 1048576\n- linear: 99999999\n")
              .find("expected an integer from 1 to 1048576") != std::string::npos);
    CHECK(error_of("inputs: {x: [1000000, 1000000, 1000000, 1000000]}\nlayers: [relu]\n") !=
          "accepted");
  }

  TEST_CASE("attention obeys training.attention, and dropout training.dropout") {
    const std::string text =
        "inputs: {tokens: {shape: [batch, sequence], type: int64}}\n"
        "layers: [{embedding: {rows: 9, width: 8}}, {attention: {heads: 2, kv_heads: 1, causal: "
        "true, rotary: true}}, {dropout: 0.3}, {linear: 9}]\n";
    const Graph flash = build(text, {.sequence = 6});
    CHECK(count_of(flash, "attention") == 1);
    CHECK(flash.tokens == 6);
    const Graph math =
        build(text, {.sequence = 6, .attention = AttentionKind::kMath, .dropout = 0.5});
    CHECK(count_of(math, "attention") == 0);
    CHECK(count_of(math, "masked_fill") == 1);
    for (const Node& node : math.nodes) {
      if (node.family->name == "dropout") CHECK(node.attributes.number("p") == 0.5);
    }
  }

  TEST_CASE("every kind of layer is known by its name once") {
    for (const LayerKind& kind : layer_kinds()) {
      CAPTURE(kind.name);
      CHECK(find_layer_kind(kind.name) == &kind);
    }
  }
}

TEST_SUITE("golden") {
  // Layer by layer the network that the preset builds: torchvision's vgg11.
  TEST_CASE("a network by its layers is the network of the preset") {
    const Graph layers = build(R"(
inputs: {images: [batch, 3, image, image]}
modules:
  conv:
    parameters: [to]
    layers: [{conv2d: {channels: to, kernel: 3, padding: 1}}, {relu: {in_place: true}}]
layers:
- conv: 64
- max_pool2d: 2
- conv: 128
- max_pool2d: 2
- conv: 256
- conv: 256
- max_pool2d: 2
- conv: 512
- conv: 512
- max_pool2d: 2
- conv: 512
- conv: 512
- max_pool2d: 2
- flatten
- linear: 4096
- relu: {in_place: true}
- dropout: 0.5
- linear: 4096
- relu: {in_place: true}
- dropout: 0.5
- linear: 1000
)",
                               {.dtype = DType::kFloat32});
    const Graph preset = find_preset("vgg11").build(Decoder(), {.dtype = DType::kFloat32});
    CHECK(layers.parameter_count().count == 132'863'336);
    // The preset has one more node: the average pool to 7 x 7, which is there already.
    CHECK(layers.nodes.size() + 1 == preset.nodes.size());
  }

  TEST_CASE("the shipped examples build and differentiate") {
    const FrameworkRules* rules = find_framework("torch-2.4-cuda");
    REQUIRE(rules != nullptr);
    for (const std::string name : {"diffusion_unet", "two_tower", "lstm_tagger"}) {
      CAPTURE(name);
      const Value document =
          read_document(test::source_path("scenarios/models/") + name + "_layers.yaml");
      const bool image_result = name == "diffusion_unet";
      const Graph graph = build_layer_model(
          Decoder(document), Decoder(), name,
          {.micro_batch = 4, .loss = image_result ? LossKind::kMse : LossKind::kCrossEntropy});
      CHECK(graph.name == name);
      // CLIP ViT-B/32 has 151,277,313 parameters; the last one is a learned temperature. The tagger
      // has 7,680,000 + LSTM 2048 * (256 + 512 + 2 + 2 * 512 + 2) + GRU 1536 * (2 * 512 + 2) +
      // head.
      const std::int64_t tagger = 7'680'000 + 2048 * 1'796 + 1536 * 1'026 + 45 * 513;
      const bool tags = name == "lstm_tagger";
      CHECK(graph.parameter_count().count == (image_result ? 30'893'956
                                              : tags       ? tagger
                                                           : 151'277'312));
      CHECK(graph.tensors[graph.logits].shape == (image_result ? Shape{4, 4, 64, 64}
                                                  : tags       ? Shape{4, 256, 45}
                                                               : Shape{4, 4}));
      const TrainingGraph training = differentiate(graph, *rules, {});
      // Every parameter gets a gradient.
      CHECK(training.trained.size() == graph.parameters.size());
    }
  }
}

}  // namespace
}  // namespace tidemark::layer_model_test
