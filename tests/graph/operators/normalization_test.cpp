#include <doctest/doctest.h>

#include "tests/graph/operators/probe.hpp"

namespace tidemark::normalization_test {
namespace {

using probe::allocations;
using probe::saved_bytes;
using probe::Sizes;
using probe::train_on_cpu;

TEST_SUITE("golden") {
  TEST_CASE("layer_norm keeps its input, mean and rstd") {
    ModelBuilder b("probe", DType::kFloat32);
    const TensorId x = b.parameter("x", {4, 32, 64});
    const TrainingGraph graph = train_on_cpu(b, b.layer_norm("ln", x));
    CHECK(saved_bytes(graph) == 1024);  // 2 * 128 rows * 4
    CHECK(allocations(graph, graph.part(PartKind::kForward)) == Sizes{32768, 512, 512});
    CHECK(allocations(graph, graph.part(PartKind::kBackward)) == Sizes{32768, 256, 256});
    CHECK(graph.operators[graph.part(PartKind::kBackward).back()].workspace == Bytes(512));
  }

  TEST_CASE("statistics of layer_norm are bf16 on a CPU and fp32 on CUDA") {
    const auto build = [] {
      ModelBuilder b("probe", DType::kBFloat16);
      b.set_output(b.layer_norm("ln", b.parameter("x", {4, 32, 64})));
      return b.finish();
    };
    CHECK(saved_bytes(probe::train(build(), "torch-1.13-cpu")) == 512);  // layer_norm_bf16
    CHECK(saved_bytes(probe::train(build(), "torch-2.4-cuda")) == 1024);
  }

  TEST_CASE(
      "batch_norm keeps its input, mean and invstd; on a CPU backward takes a second buffer") {
    ModelBuilder b("probe", DType::kFloat32);
    const TensorId x = b.parameter("x", {4, 16, 32, 32});
    const TrainingGraph graph = train_on_cpu(b, b.batch_norm("bn", x));
    CHECK(saved_bytes(graph) == 128);  // 2 * 16 channels * 4
    CHECK(allocations(graph, graph.part(PartKind::kBackward)) == Sizes{262144, 64, 64});
    CHECK(graph.operators[graph.part(PartKind::kBackward).back()].workspace == Bytes(262144));
  }

  TEST_CASE("group_norm keeps a mean and an rstd per sample and group") {
    ModelBuilder b("probe", DType::kFloat32);
    const TensorId x = b.parameter("x", {4, 16, 32, 32});
    const TensorId weight = b.parameter("weight", {16});
    const TensorId y =
        b.add("group_norm", {x, weight, b.parameter("bias", {16})}, {{"groups", std::int64_t{4}}});
    const TrainingGraph graph = train_on_cpu(b, y);
    CHECK(saved_bytes(graph) == 128);  // 2 * 4 samples * 4 groups * 4
    CHECK(allocations(graph, graph.part(PartKind::kBackward)) == Sizes{262144, 64, 64});
    CHECK(graph.operators[graph.part(PartKind::kBackward).back()].workspace == Bytes(512));
  }
}

TEST_SUITE("unit") {
  TEST_CASE("running statistics are updated by an operator of their own, which costs nothing") {
    ModelBuilder b("probe", DType::kFloat32);
    const TensorId x = b.parameter("x", {4, 16, 32, 32});
    const TrainingGraph graph = train_on_cpu(b, b.batch_norm("bn", x));
    REQUIRE(graph.part(PartKind::kForward).size() == 2);
    CHECK_FALSE(writes_persistent(graph, graph.part(PartKind::kForward)[0]));
    CHECK(writes_persistent(graph, graph.part(PartKind::kForward)[1]));
    CHECK(graph.operators[graph.part(PartKind::kForward)[1]].work.op_class == OperatorClass::kNone);
  }

  TEST_CASE("a fused RMSNorm keeps its input and rstd") {
    ModelBuilder b("probe", DType::kBFloat16);
    const TensorId x = b.scale(b.parameter("x", {4, 32, 64}));
    b.set_output(b.rms_norm("norm", x, false));
    // input 128 * 64 * 2, rstd 128 * 4
    CHECK(saved_bytes(probe::train(b.finish(), "torch-2.4-cuda")) == 16384 + 512);
  }

  TEST_CASE("an eager RMSNorm keeps an fp32 copy, rstd and the normalised tensor") {
    const auto build = [](DType dtype) {
      ModelBuilder b("probe", dtype);
      const TensorId x = b.scale(b.parameter("x", {4, 32, 64}));
      b.set_output(b.rms_norm("norm", x, true));
      return probe::train(b.finish(), "torch-2.4-cuda");
    };
    // fp32 copy 8192 * 4, rstd 128 * 4, normalised 8192 * 2; the bf16 input itself dies.
    CHECK(saved_bytes(build(DType::kBFloat16)) == 32768 + 512 + 16384);
    // In fp32 the input is its own copy: input, rstd, normalised.
    CHECK(saved_bytes(build(DType::kFloat32)) == 32768 + 512 + 32768);
  }

  TEST_CASE("a weight of another width is an error that names layer, operator and shapes") {
    ModelBuilder b("probe", DType::kFloat32);
    const auto layer = b.scope("ln_1");
    const TensorId x = b.parameter("x", {4, 64});
    const TensorId weight = b.parameter("weight", {65});
    CHECK(probe::problem_of([&] {
            b.add("layer_norm", {x, weight, {}});
          }) ==
          "ln_1: layer_norm: the weight has shape [65], but [64] is normalised (inputs have shapes "
          "[4, 64], [65])");
  }
}

}  // namespace
}  // namespace tidemark::normalization_test
