#include <doctest/doctest.h>

#include "tests/graph/operators/probe.hpp"

namespace tidemark::linear_test {
namespace {

using probe::allocations;
using probe::problem_of;
using probe::saved_bytes;
using probe::Sizes;
using probe::train_on_cpu;

constexpr DType kFp32 = DType::kFloat32;

TEST_SUITE("golden") {
  TEST_CASE("linear with a bias makes input, weight and bias gradient in this order") {
    ModelBuilder b("probe", kFp32);
    const TensorId x = b.parameter("x", {4, 32, 64});
    const TrainingGraph graph = train_on_cpu(b, b.linear("fc", x, 96));
    CHECK(saved_bytes(graph) == 0);  // its operands are parameters here
    CHECK(allocations(graph, graph.part(PartKind::kForward)) == Sizes{128 * 96 * 4});
    CHECK(allocations(graph, graph.part(PartKind::kBackward)) ==
          Sizes{32768, 24576, 384});  // probe linear_3d
  }

  TEST_CASE("linear without a bias makes the weight gradient first") {
    ModelBuilder b("probe", kFp32);
    const TensorId x = b.parameter("x", {4, 32, 64});
    const TrainingGraph graph = train_on_cpu(b, b.linear("fc", x, 96, false));
    CHECK(allocations(graph, graph.part(PartKind::kBackward)) ==
          Sizes{24576, 32768});  // linear_3d_nobias
  }

  TEST_CASE("linear copies an input whose rows do not lie behind each other, and keeps the copy") {
    ModelBuilder b("probe", kFp32);
    const TensorId x = b.transpose(b.parameter("x", {4, 32, 64}), 0, 1);
    const TrainingGraph graph = train_on_cpu(b, b.linear("fc", x, 96));
    CHECK(saved_bytes(graph) == 32768);  // linear_3d_noncontig_input
    CHECK(allocations(graph, graph.part(PartKind::kForward)) == Sizes{32768, 49152});
  }

  TEST_CASE("1.13 multiplies rows that lie transposed in batches; 2.4 keeps a copy of them") {
    // Recorded: the bias is summed first, then BmmBackward makes a weight gradient per sample and
    // the input's, ExpandBackward sums them, and .grad is a copy of the transposed sum.
    ModelBuilder b("probe", kFp32);
    const TensorId x = b.add("clone", {b.parameter("x", {4, 32, 64})});
    b.set_output(b.linear("fc", b.transpose(x, 1, 2), 96));
    const Graph graph = b.finish();
    const TrainingGraph old = probe::train(graph, "torch-1.13-cpu");
    CHECK(saved_bytes(old) == 4 * 32 * 64 * 4);  // x itself
    CHECK(allocations(old, old.part(PartKind::kBackward)) ==
          Sizes{384, 4 * 32 * 96 * 4, 4 * 64 * 32 * 4, 32 * 96 * 4, 32 * 96 * 4, 4 * 32 * 64 * 4});
    const TrainingGraph now = probe::train(graph, "torch-2.4-cuda");
    CHECK(allocations(now, now.part(PartKind::kForward)).back() == 4 * 32 * 64 * 4);
    CHECK(allocations(now, now.part(PartKind::kBackward))[0] == 4 * 64 * 32 * 4);
  }

  TEST_CASE("1.13 adds the bias to the product of four axes; 2.4 runs one addmm") {
    ModelBuilder b("probe", kFp32);
    b.set_output(b.linear("fc", b.parameter("x", {2, 3, 4, 8}), 5));
    const Graph graph = b.finish();
    const TrainingGraph old = probe::train(graph, "torch-1.13-cpu");
    CHECK(allocations(old, old.part(PartKind::kBackward)) == Sizes{20, 160, 768});
    const TrainingGraph now = probe::train(graph, "torch-2.4-cuda");
    CHECK(allocations(now, now.part(PartKind::kBackward)) == Sizes{768, 160, 20});
  }

  TEST_CASE("matmul copies head-split views and keeps the copies") {
    ModelBuilder b("probe", kFp32);
    const auto heads = [&](TensorId x) { return b.transpose(b.view(x, {2, 32, 4, 16}), 1, 2); };
    const TensorId q = heads(b.parameter("q", {2, 32, 64}));
    const TensorId k = heads(b.parameter("k", {2, 32, 64}));
    const TrainingGraph graph = train_on_cpu(b, b.matmul(q, b.transpose(k, -2, -1)));
    CHECK(saved_bytes(graph) == 2 * 16384);  // matmul_4d_headsplit
    CHECK(allocations(graph, graph.part(PartKind::kForward)) == Sizes{16384, 16384, 32768});
    CHECK(allocations(graph, graph.part(PartKind::kBackward)) == Sizes{16384, 16384, 16384, 16384});
  }

  TEST_CASE("matmul does not copy a transposed matrix whose batch axes are dense") {
    ModelBuilder b("probe", kFp32);
    const TensorId q = b.parameter("q", {2, 4, 32, 16});
    const TensorId k = b.parameter("k", {2, 4, 32, 16});
    const TrainingGraph graph = train_on_cpu(b, b.matmul(q, b.transpose(k, -2, -1)));
    CHECK(saved_bytes(graph) == 0);  // matmul_4d_kT
    CHECK(allocations(graph, graph.part(PartKind::kForward)) == Sizes{32768});
  }

  TEST_CASE("matmul by a 2-D matrix folds the batch axes: one product, weight gradient first") {
    ModelBuilder b("probe", kFp32);
    const TensorId x = b.parameter("x", {2, 4, 32, 16});
    const TrainingGraph graph = train_on_cpu(b, b.matmul(x, b.parameter("w", {16, 32})));
    CHECK(allocations(graph, graph.part(PartKind::kBackward)) ==
          Sizes{2048, 16384});  // matmul_bcast_weight
  }

  TEST_CASE("bmm makes the gradient of its right operand first") {
    ModelBuilder b("probe", kFp32);
    const TensorId x = b.parameter("x", {8, 32, 16});
    const TrainingGraph graph = train_on_cpu(b, b.matmul(x, b.parameter("y", {8, 16, 24})));
    CHECK(allocations(graph, graph.part(PartKind::kBackward)) == Sizes{8 * 16 * 24 * 4, 16384});
  }
}

TEST_SUITE("unit") {
  TEST_CASE("a frozen weight drops the activation of a linear layer") {
    ModelBuilder b("probe", kFp32);
    const TensorId x = b.activation("relu", b.parameter("x", {8, 64}));
    const TensorId frozen = b.buffer("weight", {96, 64}, kFp32);
    // relu keeps its own output; behind it, scale makes a tensor that only linear could keep.
    const TrainingGraph graph = train_on_cpu(b, b.linear_with(b.scale(x), frozen));
    CHECK(saved_bytes(graph) == 8 * 64 * 4 + 8);  // relu's output and the Python scalar
  }

  TEST_CASE("backward of linear has twice the flops of forward, and says its extents") {
    ModelBuilder b("probe", kFp32);
    const TensorId x = b.parameter("x", {8, 64});
    const TrainingGraph graph = train_on_cpu(b, b.linear("fc", x, 96, false));
    CHECK(probe::flops(graph, graph.part(PartKind::kForward)) == 2.0 * 8 * 64 * 96);
    CHECK(probe::flops(graph, graph.part(PartKind::kBackward)) == 4.0 * 8 * 64 * 96);
    const Work& forward = graph.operators[graph.part(PartKind::kForward).front()].work;
    CHECK(forward.extent == std::array<std::int64_t, 4>{8, 96, 64, 1});
    CHECK(forward.read == Bytes((8 * 64 + 64 * 96) * 4));
  }

  TEST_CASE("operands that do not fit are named with operator, layer and shapes") {
    ModelBuilder b("probe", kFp32);
    const TensorId x = b.parameter("x", {8, 64});
    const TensorId weight = b.parameter("weight", {96, 65});
    const auto layer = b.scope("h.0");
    CHECK(problem_of([&] { b.linear_with(x, weight); }) ==
          "h.0: linear: the input's last axis is 64, but the weight takes 65 features "
          "(inputs have shapes [8, 64], [96, 65])");
    CHECK(problem_of([&] {
            b.add("bmm", {b.parameter("a", {2, 3, 4}), b.parameter("b", {2, 5, 6})});
          }) ==
          "h.0: bmm: the inner axes differ: 4 and 5 (inputs have shapes [2, 3, 4], [2, 5, 6])");
  }
}

}  // namespace
}  // namespace tidemark::linear_test
