// The state of every optimizer, by hand, on two presets.
#include "policies/rewrite/optimizer_states.hpp"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "graph/autodiff/differentiate.hpp"
#include "graph/core/document.hpp"
#include "graph/core/errors.hpp"
#include "graph/models/preset.hpp"
#include "policies/optimizers/catalogue.hpp"
#include "policies/optimizers/entries.hpp"
#include "policies/optimizers/newton_schulz.hpp"
#include "policies/rewrite/optimizer.hpp"
#include "sim/program/lower.hpp"
#include "sim/program/verify.hpp"
#include "tests/support/live_bytes.hpp"

namespace tidemark::optimizer_states_test {
namespace {

TrainingGraph built(const std::string& preset, const std::string& overrides, DType dtype) {
  const Value document = parse_document(overrides, "overrides");
  const ModelOptions options{.micro_batch = 2, .sequence = 16, .dtype = dtype};
  const Graph graph = find_preset(preset).build(Decoder(document), options);
  return differentiate(graph, *find_framework("torch-1.13-cpu"), {});
}

TrainingGraph optimized(TrainingGraph graph, const OptimizerSpec& spec,
                        Precision precision = Precision::kFp32) {
  Optimizer(spec, rules_of(precision), *find_framework("torch-1.13-cpu")).apply(graph, {});
  check_invariants(graph);
  return graph;
}

// Ranks are small enough for matrices of width 64.
OptimizerSpec spec_of(OptimizerKind kind) {
  OptimizerSpec spec = optimizer_defaults(kind);
  spec.weight_decay = 0;
  spec.rank = std::min(spec.rank, 8);
  return spec;
}

TrainingGraph optimized(TrainingGraph graph, OptimizerKind kind,
                        Precision precision = Precision::kFp32) {
  return optimized(std::move(graph), spec_of(kind), precision);
}

std::vector<OperatorId> program_order_of_step(const TrainingGraph& graph, int step) {
  std::vector<OperatorId> operators;
  for (const Occurrence& occurrence : program_order(graph, 2).at) {
    if (occurrence.step == step) operators.push_back(occurrence.op);
  }
  return operators;
}

std::int64_t state_bytes(const TrainingGraph& graph) {
  std::int64_t sum = 0;
  for (const Storage& storage : graph.storages) {
    if (storage.role == Role::kOptimizerState) sum += storage.bytes.count;
  }
  return sum;
}

// 784, 1024, 1024, 512 and 10 units: matrices of 802,816, 1,048,576, 524,288 and 5,120 elements,
// biases of 1,024, 1,024, 512 and 10.
constexpr std::int64_t kHidden = 802'816 + 1'048'576 + 524'288;
constexpr std::int64_t kHead = 5'120;
constexpr std::int64_t kBiases = 2'570;
constexpr std::int64_t kBlocks = 3'136 + 4'096 + 2'048 + 20;  // of 256 elements of the matrices
constexpr std::int64_t kMi = 1'024 * 1'024;
constexpr std::int64_t kMlp = kHidden + kHead + kBiases;

// Two blocks of width 64, 50 tokens, 16 positions: per block 12 * 64^2 elements of four matrices.
constexpr const char* kSmallGpt = "{layers: 2, width: 64, heads: 4, vocab: 50, sequence: 16}";
constexpr std::int64_t kBlockMatrices = 12 * 64 * 64;
// Biases 192 + 64 + 256 + 64 and two norms of 128.
constexpr std::int64_t kBlockVectors = 576 + 256;
constexpr std::int64_t kEmbeddings = (50 + 16) * 64;
constexpr std::int64_t kGptVectors = 2 * kBlockVectors + 128;
constexpr std::int64_t kGpt = 2 * kBlockMatrices + kEmbeddings + kGptVectors;

}  // namespace

TEST_SUITE("golden") {
  TEST_CASE("the state of each optimizer on an MLP is its bytes per parameter and per tensor") {
    const auto bytes = [](OptimizerKind kind) {
      return state_bytes(optimized(built("mlp", "{}", DType::kFloat32), kind));
    };
    CHECK(bytes(find_optimizer("sgd")) == 0);
    CHECK(bytes(find_optimizer("momentum")) == 4 * kMlp);
    CHECK(bytes(find_optimizer("nesterov")) == 4 * kMlp);
    CHECK(bytes(find_optimizer("adam")) == 8 * kMlp + 8 * 4);
    CHECK(bytes(find_optimizer("adamw")) == 8 * kMlp + 8 * 4);
    // Blocks of 256: 3,136 + 4,096 + 2,048 + 20, two scales of 4 bytes each; biases in fp32.
    const std::int64_t in_8_bits = 2 * (kHidden + kHead) + 8 * kBlocks + 8 * kBiases;
    CHECK(bytes(find_optimizer("adamw_8bit")) == in_8_bits);
    CHECK(bytes(find_optimizer("paged_adamw_8bit")) == in_8_bits);
    CHECK(bytes(&adamw_8bit_torchao()) == in_8_bits);  // biases in the type of the weights
    // Half a byte, and blocks of 128.
    CHECK(bytes(find_optimizer("adamw_4bit")) == (kHidden + kHead) + 8 * 2 * kBlocks + 8 * kBiases);
    // One number per row of a matrix, one for a vector.
    CHECK(bytes(find_optimizer("adam_mini")) == 4 * kMlp + 4 * (1024 + 1024 + 512 + 10 + 4));
    CHECK(bytes(find_optimizer("lamb")) == 8 * kMlp);
    // Rows and columns of each matrix, vectors whole, a counter or a number per tensor.
    CHECK(bytes(&adafactor_transformers()) ==
          4 * (1024 + 784 + 1024 + 1024 + 512 + 1024 + 10 + 512) + 4 * kBiases + 8 * 4);
    CHECK(bytes(find_optimizer("adafactor")) ==
          4 * (1024 + 784 + 1024 + 1024 + 512 + 1024 + 10 + 512) + 4 * kBiases + 8 * 4);
    CHECK(bytes(find_optimizer("lion")) == 4 * kMlp);
    // The head and the biases are AdamW's: five counters.
    CHECK(bytes(find_optimizer("muon")) == 4 * kHidden + 8 * (kHead + kBiases) + 5 * 4);
    // Rank 8: two moments on the larger side and a projector on the smaller one; the head and the
    // biases are AdamW's; eight counters.
    const std::int64_t low_rank = 8 * (2 * 1024 + 784 + 2 * 1024 + 1024 + 2 * 1024 + 512);
    for (const char* name : {"galore", "apollo"}) {
      CHECK(bytes(find_optimizer(name)) == 4 * low_rank + 8 * (kHead + kBiases) + 8 * 4);
    }
    // Two square matrices for every side; the biases are AdamW's, Shampoo's have one side.
    const std::int64_t squares = kMi + 784 * 784 + 2 * kMi + 512 * 512 + kMi + 100 + 512 * 512;
    CHECK(bytes(find_optimizer("soap")) == 8 * kMlp + 4 * 2 * squares + 4 * 4);
    const std::int64_t of_vectors = kMi + kMi + 512 * 512 + 100;
    CHECK(bytes(find_optimizer("shampoo")) == 8 * kMlp + 4 * 2 * (squares + of_vectors));
    CHECK(bytes(find_optimizer("adagrad")) == 4 * kMlp + 8 * 4);
    CHECK(bytes(find_optimizer("rmsprop")) == 4 * kMlp);
  }

  TEST_CASE("the state of each optimizer on a GPT with a tied head") {
    const auto bytes = [](OptimizerKind kind) {
      return state_bytes(optimized(built("gpt", kSmallGpt, DType::kFloat32), kind));
    };
    // Tensors: 12 of each block, 2 embeddings, 2 of the last norm.
    CHECK(bytes(find_optimizer("adamw")) == 8 * kGpt + 28 * 4);
    CHECK(bytes(find_optimizer("lion")) == 4 * kGpt);
    CHECK(bytes(find_optimizer("rmsprop")) == 4 * kGpt);
    CHECK(bytes(find_optimizer("adagrad")) == 4 * kGpt + 28 * 4);
    // Both embeddings are looked up, and the token's is the head.
    CHECK(bytes(find_optimizer("muon")) ==
          4 * 2 * kBlockMatrices + 8 * (kEmbeddings + kGptVectors) + 20 * 4);
    // c_attn 12,288 elements, c_proj 4,096, c_fc and mlp.c_proj 16,384: 48 + 16 + 64 + 64 blocks;
    // the embeddings have fewer than 4,096 elements.
    CHECK(bytes(find_optimizer("adamw_8bit")) ==
          2 * (2 * kBlockMatrices + 2 * 4 * 192) + 8 * (kEmbeddings + kGptVectors));
    const std::int64_t block = (192 + 64) + (64 + 64) + (256 + 64) + (64 + 256);
    CHECK(bytes(find_optimizer("adafactor")) ==
          4 * (2 * block + (50 + 64) + (16 + 64) + kGptVectors) + 28 * 4);
  }

  TEST_CASE("with fp32 masters 8-bit moments cost 6 bytes per parameter and their scales") {
    const TrainingGraph graph = optimized(built("mlp", "{}", DType::kBFloat16),
                                          find_optimizer("adamw_8bit"), Precision::kBf16Mixed);
    CHECK(state_bytes(graph) == 4 * kMlp + 2 * (kHidden + kHead) + 8 * kBlocks + 8 * kBiases);
  }

  TEST_CASE("embeddings keep fp32 moments where they are asked to") {
    const auto bytes = [](bool in_fp32) {
      OptimizerSpec spec = spec_of(find_optimizer("adamw_8bit"));
      spec.embeddings_in_fp32 = in_fp32;
      return state_bytes(
          optimized(built("gpt", "{layers: 2, width: 64, heads: 4, vocab: 100, sequence: 16}",
                          DType::kFloat32),
                    spec));
    };
    // The tied embedding has 6,400 elements and 25 blocks; that of positions is small already.
    CHECK(bytes(true) - bytes(false) == 8 * 6'400 - (2 * 6'400 + 8 * 25));
  }

  TEST_CASE("16-bit AdamW keeps what rounding loses of each weight, or nothing") {
    OptimizerSpec spec = spec_of(find_optimizer("adamw"));
    const TrainingGraph graph = built("mlp", "{}", DType::kBFloat16);
    const std::int64_t plain = state_bytes(optimized(graph, spec, Precision::kBf16));
    spec.kahan = true;
    CHECK(state_bytes(optimized(graph, spec, Precision::kBf16)) == plain + 2 * kMlp);
    CHECK_THROWS_AS(static_cast<void>(optimized(graph, spec, Precision::kBf16Mixed)), UserError);
    spec.kahan = false;
    spec.stochastic_rounding = true;
    spec.implementation = OptimizerImplementation::kFused;
    const TrainingGraph rounding = optimized(graph, spec, Precision::kBf16);
    CHECK(state_bytes(rounding) == plain);
    CHECK(test::peak_above_start(rounding, program_order(rounding, 2), Phase::kOptimizer, 1) == 0);
  }

  TEST_CASE("a refresh of GaLore's projectors peaks in the first step only, or in every step") {
    const auto peak = [](int refresh, int step) {
      OptimizerSpec spec = spec_of(find_optimizer("galore"));
      spec.refresh = refresh;
      const TrainingGraph graph = optimized(built("mlp", "{}", DType::kFloat32), spec);
      std::vector<std::int64_t> found;
      for (const OperatorId id : program_order_of_step(graph, step)) {
        if (graph.operators[id].name == "galore.singular_vectors")
          found.push_back(graph.storages[graph.touches_of(id).back().storage].bytes.count);
      }
      return found;
    };
    // A copy in fp32, and both bases: [a, b], [a, b] and [b, b].
    const std::vector<std::int64_t> bases = {4 * (2 * 802'816 + 784 * 784), 4 * 3 * kMi,
                                             4 * (2 * 524'288 + 512 * 512)};
    CHECK(peak(200, 0) == bases);
    CHECK(peak(200, 1).empty());
    CHECK(peak(1, 1) == bases);
  }

  TEST_CASE("a step of Lion, Adafactor and Muon holds its temporaries for one parameter") {
    const auto peak = [](OptimizerKind kind) {
      const TrainingGraph graph = optimized(built("mlp", "{}", DType::kFloat32), kind);
      return test::peak_above_start(graph, program_order(graph, 2), Phase::kOptimizer, 1);
    };
    // Matrices of 802,816 and then 1,048,576 elements, with a bias of 1,024 between them: the last
    // update, that of the bias, and three tensors of the larger matrix.
    CHECK(peak(find_optimizer("lion")) == 4 * (3 * 1'048'576 + 1'024));
    // The squares of the gradient and row times column, beside the roots of 1,024 rows and columns;
    // the bias's update is freed by then.
    CHECK(peak(&adafactor_transformers()) == 4 * (2 * 1'048'576 + 2 * 1'024));
    // torch.optim's estimate becomes the update in place, beside the norms of rows and columns.
    CHECK(peak(find_optimizer("adafactor")) == 4 * (1'048'576 + 2 * 1'024));
    // The last update in bf16 beside Newton and Schulz's of [1024, 1024]: 2 n + 8 n + 4 m m.
    CHECK(peak(find_optimizer("muon")) == 2 * 802'816 + 8 * 1'048'576 + 4 * 1'048'576);
    CHECK(peak(find_optimizer("adamw_8bit")) == 0);
  }
}

TEST_SUITE("property") {
  TEST_CASE("steps with every optimizer lower to programs that verify") {
    for (std::size_t i = 0; i < optimizer_names().size(); ++i) {
      CAPTURE(std::string(optimizer_names()[i]));
      const OptimizerKind kind = find_optimizer(optimizer_names()[i]);
      for (const Precision precision : {Precision::kFp32, Precision::kBf16Mixed}) {
        const DType dtype = rules_of(precision).model;
        const TrainingGraph graph = optimized(built("gpt", kSmallGpt, dtype), kind, precision);
        const ProgramOrder order = program_order(graph, 3);
        const Liveness live = analyze_liveness(graph, order);
        const StepProgram program =
            lower(graph, order, live, IdVector<GapId, Decision>(live.gaps.size()));
        CHECK(verify(graph, order, order, program) == std::vector<std::string>{});
      }
    }
  }
}

TEST_SUITE("unit") {
  TEST_CASE("Newton and Schulz multiply five times by the smaller side's matrix") {
    CHECK(newton_schulz_bytes({1024, 256}) == newton_schulz_bytes({256, 1024}));
    CHECK(newton_schulz_bytes({256, 1024}).count == 8 * 262'144 + 4 * 65'536);
    CHECK(newton_schulz_flops({2, 3}).count == 5.0 * (4 * 2 * 2 * 3 + 2 * 8));
    // The kernels of a convolution are a row per output channel: [64, 27].
    CHECK(newton_schulz_bytes({64, 3, 3, 3}).count == 8 * 1'728 + 4 * 729);
  }

  TEST_CASE("each optimizer runs in the form that exists nearest to the framework's default") {
    const FrameworkRules& cuda = *find_framework("torch-2.4-cuda");
    const auto form = [&](OptimizerKind kind, bool master) {
      return implementation_of({.kind = kind}, cuda, master);
    };
    CHECK(form(find_optimizer("lion"), false) == OptimizerImplementation::kLoop);
    CHECK(form(find_optimizer("lion"), true) == OptimizerImplementation::kFused);
    CHECK(form(find_optimizer("rmsprop"), true) == OptimizerImplementation::kForeach);
    CHECK(form(find_optimizer("adamw_8bit"), false) == OptimizerImplementation::kFused);
    CHECK(form(find_optimizer("muon"), true) == OptimizerImplementation::kLoop);
  }
}

}  // namespace tidemark::optimizer_states_test
