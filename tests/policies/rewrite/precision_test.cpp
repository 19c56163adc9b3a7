// Autocast against the lists of PyTorch (aten/src/ATen/autocast_mode.h) and, on the CPU of 1.13,
// against the measured step gpt_L4C256_b2_T128_p0_bf16 of shared/cases/torch.
#include "policies/rewrite/precision.hpp"

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "graph/autodiff/differentiate.hpp"
#include "graph/core/errors.hpp"
#include "graph/models/builder.hpp"
#include "graph/operators/family.hpp"
#include "tests/support/live_bytes.hpp"

namespace tidemark::precision_test {
namespace {

constexpr std::int64_t kBatch = 2;
constexpr std::int64_t kLength = 128;
constexpr std::int64_t kWidth = 256;
constexpr std::int64_t kHeads = 8;
constexpr std::int64_t kVocabulary = 4096;

// nanoGPT's block: attention written out, its projections, an MLP; tied embedding and head.
Graph gpt(int layers) {
  ModelBuilder b("gpt", DType::kFloat32);
  const TensorId tokens = b.input("tokens", {kBatch, kLength}, DType::kInt64);
  TensorId tied;
  TensorId x = b.embedding("wte", tokens, kVocabulary, kWidth, &tied);
  const TensorId positions = b.view(b.add("arange", {}, {{"length", kLength}}), {1, kLength});
  x = b.add_tensors(x, b.embedding("wpe", positions, kLength, kWidth));
  for (int i = 0; i < layers; ++i) {
    const auto block = b.block(fmt::format("h.{}", i));
    TensorId y = b.layer_norm("ln_1", x);
    {
      auto attention = b.scope("attn");
      attention.local(y);
      const TensorId mask = b.buffer("bias", {1, 1, kLength, kLength}, DType::kFloat32);
      std::vector<TensorId> parts = b.split(b.linear("c_attn", y, 3 * kWidth), kWidth, 2);
      for (TensorId& part : parts) {
        part = b.transpose(b.view(part, {kBatch, kLength, kHeads, kWidth / kHeads}), 1, 2);
        attention.local(part);
      }
      y = b.attention(parts[0], parts[1], parts[2], AttentionKind::kMath, true, 0, mask);
      y = b.view(b.contiguous(b.transpose(y, 1, 2)), {kBatch, kLength, kWidth});
      y = b.linear("c_proj", y, kWidth);
    }
    x = b.add_tensors(x, y);
    const TensorId hidden = b.linear("mlp.c_fc", b.layer_norm("ln_2", x), 4 * kWidth);
    x = b.add_tensors(x, b.linear("mlp.c_proj", b.activation("gelu", hidden), kWidth));
  }
  b.cross_entropy_loss(b.linear_with(b.layer_norm("ln_f", x), tied));
  b.set_samples(kBatch, kBatch * kLength);
  return b.finish();
}

Graph autocast(const Graph& graph, std::string_view framework, DType low = DType::kBFloat16,
               bool cache = true) {
  return Autocast(low, cache, *find_framework(framework)).apply(graph, {});
}

std::vector<NodeId> nodes_of(const Graph& graph, std::string_view family) {
  std::vector<NodeId> nodes;
  for (NodeId id : ids_of(graph.nodes)) {
    if (graph.nodes[id].family->name == family) nodes.push_back(id);
  }
  return nodes;
}

DType type_of_input(const Graph& graph, NodeId id, std::size_t index) {
  return graph.tensors[graph.nodes[id].inputs[index]].dtype;
}

DType type_of_output(const Graph& graph, NodeId id) {
  return graph.tensors[graph.output(id)].dtype;
}

std::int64_t saved_bytes(const TrainingGraph& graph) {
  std::int64_t sum = 0;
  for (const Storage& storage : graph.storages) {
    if (storage.role == Role::kSavedActivation) sum += storage.bytes.count;
  }
  return sum;
}

std::int64_t bytes_of(const Graph& graph, Role role) {
  std::int64_t sum = 0;
  for (const Storage& storage : graph.storages) {
    if (storage.role == role) sum += storage.bytes.count;
  }
  return sum;
}

Precision decoded(const std::string& text) {
  const Value document = parse_document(text, "test.yaml");
  return decode_precision(Decoder(document));
}

}  // namespace

TEST_SUITE("golden") {
  TEST_CASE("a GPT in bf16 autocast on a CPU makes the casts and keeps the bytes of the real one") {
    const Graph graph = autocast(gpt(4), "torch-1.13-cpu");
    // Per block 4 weights, 4 biases, 2 outputs of layer_norm; the head's input and weight; logits.
    CHECK(nodes_of(graph, "cast").size() == 4 * 10 + 2 + 1);
    const TrainingGraph training = differentiate(graph, *find_framework("torch-1.13-cpu"), {});
    CHECK(saved_bytes(training) == 24'595'492);
    CHECK(bytes_of(graph, Role::kParameter) == 16'963'584);
    std::int64_t gradients = 0;
    for (ParameterId id : training.trained) {
      const Parameter& p = training.parameters[id];
      CHECK(p.gradient_dtype == DType::kFloat32);
      gradients += training.storages[p.gradient].bytes.count;
    }
    CHECK(gradients == 16'963'584);
  }

  TEST_CASE("the peaks of that step are those of the loss and of log_softmax's backward") {
    for (bool cache : {true, false}) {
      const Graph graph = autocast(gpt(4), "torch-1.13-cpu", DType::kBFloat16, cache);
      const TrainingGraph training = differentiate(graph, *find_framework("torch-1.13-cpu"), {});
      const ProgramOrder order = program_order(training, 1);
      const test::LiveBytes live = test::live_bytes(training, order);
      // Measured less the optimizer's state of 33,927,376 bytes.
      CHECK(live.peak == 84'141'304 - 33'927'376);
      CHECK(training.operators[order.at[live.peak_at].op].name == "log_softmax.backward");
      // What only the cache keeps are the biases: 4 * (768 + 256 + 1024 + 256) * 2 = 18,432.
      CHECK(test::peak_above_start(training, order, Phase::kForward, 0) ==
            (cache ? 82'062'584 : 82'044'152) - 33'927'376);
    }
  }
}

TEST_SUITE("unit") {
  TEST_CASE("matrix products run in the low type and a weight is converted once") {
    const Graph graph = autocast(gpt(1), "torch-2.4-cuda");
    for (std::string_view family : {"linear", "bmm"}) {
      for (NodeId id : nodes_of(graph, family)) {
        CHECK(type_of_input(graph, id, 0) == DType::kBFloat16);
        CHECK(type_of_input(graph, id, 1) == DType::kBFloat16);
        CHECK(type_of_output(graph, id) == DType::kBFloat16);
      }
    }
    for (std::string_view family : {"layer_norm", "softmax", "log_softmax", "nll_loss"}) {
      for (NodeId id : nodes_of(graph, family)) {
        CHECK(type_of_input(graph, id, 0) == DType::kFloat32);
        CHECK(type_of_output(graph, id) == DType::kFloat32);
      }
    }
    CHECK(type_of_output(graph, nodes_of(graph, "gelu")[0]) == DType::kBFloat16);
    // The residual stream is fp32: embedding + bf16.
    CHECK(type_of_output(graph, nodes_of(graph, "add").back()) == DType::kFloat32);
  }

  TEST_CASE("two uses of a weight share its cast only with the cache") {
    ModelBuilder b("shared", DType::kFloat32);
    const TensorId weight = b.parameter("weight", {8, 8});
    const TensorId x = b.input("x", {4, 8}, DType::kFloat32);
    b.set_output(b.linear_with(b.linear_with(x, weight), weight));
    const Graph graph = b.finish();
    const Graph cached = autocast(graph, "torch-2.4-cuda");
    CHECK(nodes_of(cached, "cast").size() == 2);  // x and the weight
    REQUIRE(cached.locals.size() == 1);           // the cast weight stays until autocast ends
    CHECK(cached.locals[0].until == NodeId(cached.nodes.size() - 1));
    CHECK(cached.tensors[cached.locals[0].tensor].shape == Shape{8, 8});
    const Graph uncached = autocast(graph, "torch-2.4-cuda", DType::kBFloat16, false);
    CHECK(nodes_of(uncached, "cast").size() == 3);
    CHECK(uncached.locals.empty());
  }

  TEST_CASE("casts of frozen weights are not cached") {
    ModelBuilder b("frozen", DType::kFloat32);
    const TensorId weight = b.parameter("weight", {8, 8});
    const TensorId x = b.parameter("x", {4, 8});
    b.set_output(b.linear_with(b.linear_with(x, weight), weight));
    Graph graph = b.finish();
    graph.tensors[weight].requires_grad = false;
    graph.parameters[ParameterId(0U)].trained = false;
    CHECK(nodes_of(autocast(graph, "torch-2.4-cuda"), "cast").size() == 3);
  }

  TEST_CASE("softmax of fp16 converts inside its kernel, of bf16 by a copy") {
    const Graph fp16 = autocast(gpt(1), "torch-2.4-cuda", DType::kFloat16);
    const Graph bf16 = autocast(gpt(1), "torch-2.4-cuda", DType::kBFloat16);
    const Graph cpu = autocast(gpt(1), "torch-1.13-cpu");
    CHECK(type_of_input(fp16, nodes_of(fp16, "softmax")[0], 0) == DType::kFloat16);
    CHECK(type_of_output(fp16, nodes_of(fp16, "softmax")[0]) == DType::kFloat32);
    CHECK(type_of_input(bf16, nodes_of(bf16, "softmax")[0], 0) == DType::kFloat32);
    CHECK(type_of_output(cpu, nodes_of(cpu, "softmax")[0]) == DType::kBFloat16);
    // bf16: also scores and logits are converted. The CPU's softmax feeds bmm without a cast.
    CHECK(nodes_of(bf16, "cast").size() == nodes_of(fp16, "cast").size() + 2);
  }

  TEST_CASE("a CPU runs transposed convolutions and losses of logits in fp32") {
    // Recorded on 1.13.1 under bf16 autocast; CUDA lists the transposed convolution as low.
    ModelBuilder b("up", DType::kFloat32);
    const TensorId image = b.input("image", {2, 3, 8, 8}, DType::kFloat32);
    const TensorId y = b.conv2d("conv", image, 4, {.kernel = 3, .padding = 1, .bias = false});
    const TensorId up = b.conv_transpose2d("up", y, 4, {.kernel = 2, .stride = 2, .bias = false});
    const TensorId target = b.input("target", {2, 4, 16, 16}, DType::kFloat32);
    b.set_loss(b.add("bce_with_logits_loss", {up, target}));
    const Graph graph = b.finish();
    const Graph cpu = autocast(graph, "torch-1.13-cpu");
    const Graph cuda = autocast(graph, "torch-2.4-cuda");
    CHECK(type_of_input(cpu, nodes_of(cpu, "conv_transpose2d")[0], 0) == DType::kFloat32);
    CHECK(type_of_input(cuda, nodes_of(cuda, "conv_transpose2d")[0], 0) == DType::kBFloat16);
    CHECK(type_of_input(cuda, nodes_of(cuda, "bce_with_logits_loss")[0], 0) == DType::kFloat32);
  }

  TEST_CASE("log_softmax is converted on a CPU only as a part of cross_entropy") {
    for (const bool by_itself : {false, true}) {
      ModelBuilder b("probe", DType::kFloat32);
      const TensorId y = b.linear("fc", b.input("x", {2, 8}, DType::kFloat32), 4);
      Attributes attributes{{"axis", std::int64_t{1}}};
      if (by_itself) attributes.set("called_by_itself", std::int64_t{1});
      b.set_output(b.add("log_softmax", {y}, attributes));
      const Graph cpu = autocast(b.finish(), "torch-1.13-cpu");
      const DType wanted = by_itself ? DType::kBFloat16 : DType::kFloat32;
      CHECK(type_of_output(cpu, nodes_of(cpu, "log_softmax")[0]) == wanted);
    }
  }

  TEST_CASE("a CPU and a GPU list other operators as fp32") {
    // CPU: recorded on 1.13.1; GPU: AT_FORALL_FP32 of autocast_mode.h.
    struct Listed {
      std::string_view family;
      Attributes attributes;
      bool cpu;
      bool cuda;
    };
    const std::vector<std::int64_t> around{1, 1, 1, 1};
    const std::vector<Listed> cases{
        {"pad", {{"pads", around}, {"mode", std::string("reflect")}}, true, false},
        {"pad", {{"pads", around}, {"mode", std::string("replicate")}}, true, false},
        {"pad", {{"pads", around}}, false, false},
        {"log", {}, false, true},
        {"reciprocal", {}, false, true},
        {"expm1", {}, false, true},
        {"tan", {}, false, true},
        {"sqrt", {}, false, false},
        {"sin", {}, false, false},
        {"erf", {}, false, false},
        {"logsumexp", {{"axes", std::vector<std::int64_t>{1}}}, false, true}};
    for (const Listed& listed : cases) {
      CAPTURE(listed.family);
      ModelBuilder b("probe", DType::kFloat32);
      const TensorId image = b.input("image", {2, 3, 8, 8}, DType::kFloat32);
      const TensorId y = b.conv2d("conv", image, 4, {.kernel = 3, .padding = 1, .bias = false});
      b.set_output(b.add(listed.family, {y}, listed.attributes));
      const Graph graph = b.finish();
      for (const bool on_gpu : {false, true}) {
        const Graph cast = autocast(graph, on_gpu ? "torch-2.4-cuda" : "torch-1.13-cpu");
        const bool wide = on_gpu ? listed.cuda : listed.cpu;
        CHECK(type_of_input(cast, nodes_of(cast, listed.family)[0], 0) ==
              (wide ? DType::kFloat32 : DType::kBFloat16));
      }
    }
  }

  TEST_CASE("batch_norm takes bf16 with fp32 parameters") {
    ModelBuilder b("cnn", DType::kFloat32);
    const TensorId image = b.input("image", {2, 3, 8, 8}, DType::kFloat32);
    const TensorId y = b.conv2d("conv", image, 4, {.kernel = 3, .padding = 1, .bias = false});
    b.set_output(b.activation("relu", b.batch_norm("bn", y), true));
    const Graph graph = autocast(b.finish(), "torch-2.4-cuda");
    const NodeId norm = nodes_of(graph, "batch_norm")[0];
    CHECK(nodes_of(graph, "cast").size() == 2);  // image and filter
    CHECK(type_of_input(graph, norm, 0) == DType::kBFloat16);
    CHECK(type_of_input(graph, norm, 1) == DType::kFloat32);
    CHECK(type_of_output(graph, nodes_of(graph, "relu")[0]) == DType::kBFloat16);
  }

  TEST_CASE("the rebuilt graph keeps names, layers, blocks, roots, locals and the loss") {
    const Graph before = gpt(2);
    const Graph after = autocast(before, "torch-2.4-cuda");
    CHECK(after.name == before.name);
    CHECK(after.layers.size() == before.layers.size());
    CHECK(after.blocks == 2);
    CHECK(after.samples == kBatch);
    CHECK(after.tokens == kBatch * kLength);
    CHECK(after.parameter_count() == before.parameter_count());
    REQUIRE(after.parameters.size() == before.parameters.size());
    for (ParameterId id : ids_of(after.parameters)) {
      const Parameter& parameter = after.parameters[id];
      CHECK(parameter.name == before.parameters[id].name);
      CHECK(parameter.storage == after.tensors[parameter.tensor].storage);
      CHECK(after.storages[parameter.storage].name == parameter.name);
      CHECK(after.storages[parameter.storage].role == Role::kParameter);
    }
    CHECK(bytes_of(after, Role::kBuffer) == bytes_of(before, Role::kBuffer));
    CHECK(bytes_of(after, Role::kInput) == bytes_of(before, Role::kInput));
    CHECK(after.tensors[after.loss].shape.rank() == 0);
    CHECK(after.tensors[after.logits].dtype == DType::kBFloat16);
    // 2 * 8 linear weights and biases and the tied table stay cached beside the modules' locals.
    CHECK(after.locals.size() == before.locals.size() + 17);
  }

  TEST_CASE("tf32 changes the arithmetic of products only") {
    TrainingGraph graph = differentiate(gpt(1), *find_framework("torch-2.4-cuda"), {});
    Tf32().apply(graph, {});
    for (const Operator& op : graph.operators) {
      const bool product = op.work.op_class == OperatorClass::kMatmul;
      CHECK((op.work.dtype == DType::kTf32) == product);
    }
  }

  TEST_CASE("every precision has its rules") {
    for (const PrecisionRules& rules : precision_table()) {
      CHECK(&rules_of(rules.precision) == &rules);
      CHECK(bits_of(rules.gradients) == bits_of(rules.model));
      CHECK(rules.master_weights == rules.name.ends_with("_mixed"));
      CHECK(rules.autocast.has_value() == rules.name.ends_with("_autocast"));
    }
    CHECK(rules_of(Precision::kFp16Mixed).model == DType::kFloat16);
    CHECK(rules_of(Precision::kFp16Autocast).model == DType::kFloat32);
    CHECK(rules_of(Precision::kTf32).tf32);
  }

  TEST_CASE("a precision is a word with suggestions") {
    CHECK(decoded("micro_batch: 1") == Precision::kBf16Mixed);
    CHECK(decoded("precision: tf32") == Precision::kTf32);
    const auto problem = [](const std::string& text) -> std::string {
      try {
        static_cast<void>(decoded(text));
      } catch (const UserError& error) {
        return error.what();
      }
      return {};
    };
    CHECK(problem("precision: bf16_autcast").find("did you mean 'bf16_autocast'?") !=
          std::string::npos);
    CHECK(decoded("precision: fp8_mixed") == Precision::kFp8Mixed);
    CHECK(decoded("precision: {fp8_mixed: {recipe: mxfp8}}") == Precision::kFp8Mixed);
  }

  TEST_CASE("gradients have their parameter's type unless the scenario widens them") {
    const Value wide = parse_document("gradient_dtype: fp32", "test.yaml");
    CHECK(decode_gradient_dtype(Decoder(wide)) == DType::kFloat32);
    CHECK_FALSE(decode_gradient_dtype(Decoder()).has_value());
  }
}

}  // namespace tidemark::precision_test
