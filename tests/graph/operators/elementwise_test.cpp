#include <doctest/doctest.h>

#include "tests/graph/operators/probe.hpp"

namespace tidemark::elementwise_test {
namespace {

using probe::allocations;
using probe::saved_bytes;
using probe::Sizes;
using probe::train_on_cpu;

constexpr DType kFp32 = DType::kFloat32;
constexpr std::int64_t kFull = 4 * 32 * 64 * 4;  // 32,768: the probes' [4, 32, 64]

// Returns the bytes that a unary function keeps of an input that is no parameter.
TrainingGraph unary(std::string_view kind, bool in_place = false) {
  ModelBuilder b("probe", kFp32);
  const TensorId x = b.add("add_scalar", {b.parameter("x", {4, 32, 64})});
  const TensorId y = b.activation(kind, x, in_place);
  return train_on_cpu(b, b.add("add_scalar", {y}));
}

TEST_SUITE("golden") {
  TEST_CASE("each activation keeps one tensor, its input or its output") {
    for (std::string_view kind :
         {"relu", "gelu", "gelu_tanh", "silu", "sigmoid", "tanh", "exp", "sqrt", "rsqrt", "relu6",
          "hardswish", "hardsigmoid", "leaky_relu", "elu", "softplus", "mish", "abs"}) {
      CAPTURE(kind);
      CHECK(saved_bytes(unary(kind)) == kFull);
    }
    CHECK(saved_bytes(unary("neg")) == 0);
  }

  TEST_CASE("in place relu needs no memory of its own, silu and hardswish clone their input") {
    for (std::string_view kind : {"relu", "sigmoid", "tanh", "leaky_relu"}) {
      CAPTURE(kind);
      const TrainingGraph graph = unary(kind, true);
      CHECK(saved_bytes(graph) == kFull);
      CHECK(allocations(graph, graph.part(PartKind::kForward)) ==
            Sizes{kFull, kFull});  // add_scalar twice
    }
    for (std::string_view kind : {"silu", "hardswish", "relu6"}) {
      CAPTURE(kind);
      const TrainingGraph graph = unary(kind, true);
      CHECK(saved_bytes(graph) == kFull);
      CHECK(allocations(graph, graph.part(PartKind::kForward)) == Sizes{kFull, kFull, kFull});
    }
  }

  TEST_CASE("dropout keeps noise in fp32 on a CPU and a byte per element on CUDA") {
    const auto build = [](double p, bool in_place) {
      ModelBuilder b("probe", kFp32);
      const TensorId x = b.add("add_scalar", {b.parameter("x", {4, 32, 64})});
      b.set_output(b.dropout(x, p, in_place));
      return b.finish();
    };
    CHECK(saved_bytes(probe::train(build(0.1, false), "torch-1.13-cpu")) == kFull);
    CHECK(saved_bytes(probe::train(build(0.1, false), "torch-2.4-cuda")) == kFull / 4);
    CHECK(saved_bytes(probe::train(build(0.1, true), "torch-2.4-cuda")) == kFull);
    CHECK(saved_bytes(probe::train(build(0, true), "torch-2.4-cuda")) == 0);
    // p = 0 is the input itself: no kernel.
    CHECK(probe::train(build(0, false), "torch-2.4-cuda").part(PartKind::kForward).size() == 1);
    CHECK(probe::train(build(0, true), "torch-2.4-cuda").part(PartKind::kForward).size() == 1);
  }

  TEST_CASE("mul keeps each operand whose partner needs a gradient, and sums after both products") {
    ModelBuilder b("probe", kFp32);
    const TensorId x = b.add("add_scalar", {b.parameter("x", {4, 32, 64})});
    const TrainingGraph graph = train_on_cpu(b, b.multiply(x, b.parameter("w", {64})));
    CHECK(saved_bytes(graph) == kFull);
    // The third is the sum for w: probe mul_bcast_weight.
    CHECK(allocations(graph, graph.part(PartKind::kBackward)) == Sizes{kFull, kFull, 256});
  }

  TEST_CASE("mul by a buffer keeps the buffer only") {
    ModelBuilder b("probe", kFp32);
    const TensorId x = b.add("add_scalar", {b.parameter("x", {4, 32, 64})});
    const TrainingGraph graph = train_on_cpu(b, b.multiply(x, b.buffer("c", {64}, kFp32)));
    CHECK(saved_bytes(graph) == 0);  // mul_const_tensor
    CHECK(allocations(graph, graph.part(PartKind::kBackward)) == Sizes{kFull});
  }

  TEST_CASE("a Python scalar is a saved tensor of 8 bytes in 1.13 and nothing in 2.4") {
    const auto build = [] {
      ModelBuilder b("probe", kFp32);
      b.set_output(b.scale(b.parameter("x", {4, 32, 64})));
      return b.finish();
    };
    CHECK(saved_bytes(probe::train(build(), "torch-1.13-cpu")) == 8);
    CHECK(saved_bytes(probe::train(build(), "torch-2.4-cuda")) == 0);
  }

  TEST_CASE("masked_fill keeps a bool mask in the shape of its source") {
    ModelBuilder b("probe", kFp32);
    const TensorId scores = b.parameter("scores", {2, 4, 32, 32});
    const TensorId mask = b.buffer("bias", {1, 1, 64, 64}, kFp32);
    const TrainingGraph graph = train_on_cpu(b, b.masked_fill(scores, mask));
    CHECK(saved_bytes(graph) == 32 * 32);  // bias[:, :, :T, :T] == 0
    CHECK(allocations(graph, graph.part(PartKind::kBackward)) == Sizes{kFull});
  }
}

TEST_SUITE("unit") {
  TEST_CASE("add passes its gradient to both operands, summed where one was broadcast") {
    ModelBuilder b("probe", kFp32);
    const TensorId x = b.scale(b.parameter("x", {4, 32, 64}));
    const TrainingGraph graph = train_on_cpu(b, b.add_tensors(x, b.parameter("bias", {64})));
    CHECK(saved_bytes(graph) == 8);
    CHECK(allocations(graph, graph.part(PartKind::kBackward)) ==
          Sizes{256, kFull});  // the sum; scale's gradient
  }

  TEST_CASE("a conversion keeps nothing and converts its gradient back") {
    ModelBuilder b("probe", kFp32);
    const TrainingGraph graph =
        train_on_cpu(b, b.cast(b.parameter("x", {4, 32, 64}), DType::kBFloat16));
    CHECK(saved_bytes(graph) == 0);
    CHECK(allocations(graph, graph.part(PartKind::kForward)) == Sizes{kFull / 2});  // to_bf16
    CHECK(allocations(graph, graph.part(PartKind::kBackward)) == Sizes{kFull});
  }

  TEST_CASE("shapes that do not broadcast are named") {
    ModelBuilder b("probe", kFp32);
    const TensorId x = b.parameter("x", {4, 64});
    const TensorId y = b.parameter("y", {3, 64});
    CHECK(probe::problem_of([&] { b.add_tensors(x, y); }) ==
          "probe: add: shapes [4, 64] and [3, 64] do not broadcast: 4 and 3 differ at axis -2 "
          "(inputs have shapes [4, 64], [3, 64])");
    CHECK(probe::problem_of([&] { b.activation("swoosh", x); }) ==
          "there is no operator named 'swoosh'");
  }
}

}  // namespace
}  // namespace tidemark::elementwise_test
