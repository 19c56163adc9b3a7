#include <doctest/doctest.h>

#include "tests/graph/operators/probe.hpp"

namespace tidemark::loss_test {
namespace {

using probe::allocations;
using probe::saved_bytes;
using probe::Sizes;
using probe::train_on_cpu;

TEST_SUITE("golden") {
  TEST_CASE("cross_entropy keeps the log-probabilities and a scalar, backward has two kernels") {
    ModelBuilder b("probe", DType::kFloat32);
    b.cross_entropy_loss(b.parameter("logits", {64, 100}));
    const TrainingGraph graph = probe::train(b.finish(), "torch-1.13-cpu");
    CHECK(saved_bytes(graph) == 25604);
    CHECK(allocations(graph, graph.part(PartKind::kForward)) == Sizes{25600, 4, 4});
    CHECK(allocations(graph, graph.part(PartKind::kBackward)) == Sizes{25600, 25600});
  }

  TEST_CASE("cross_entropy of images has the classes at axis 1") {
    ModelBuilder b("probe", DType::kFloat32);
    b.cross_entropy_loss(b.parameter("logits", {2, 21, 16, 16}));
    CHECK(saved_bytes(probe::train(b.finish(), "torch-1.13-cpu")) == 43012);  // cross_entropy_2d
  }

  TEST_CASE("softmax keeps its output") {
    ModelBuilder b("probe", DType::kFloat32);
    const TrainingGraph graph = train_on_cpu(b, b.softmax(b.parameter("x", {4, 32, 64})));
    CHECK(saved_bytes(graph) == 32768);
    CHECK(allocations(graph, graph.part(PartKind::kBackward)) == Sizes{32768});
  }

  TEST_CASE("embedding keeps its indices; its gradient is dense") {
    ModelBuilder b("probe", DType::kFloat32);
    const TensorId indices = b.input("tokens", {4, 32}, DType::kInt64);
    const TrainingGraph graph = train_on_cpu(b, b.embedding("wte", indices, 100, 64));
    CHECK(saved_bytes(graph) == 0);
    CHECK(allocations(graph, graph.part(PartKind::kForward)) == Sizes{32768});
    CHECK(allocations(graph, graph.part(PartKind::kBackward)) == Sizes{25600});
  }
}

TEST_SUITE("unit") {
  TEST_CASE("16-bit logits are converted to fp32 before their loss is taken") {
    ModelBuilder b("probe", DType::kBFloat16);
    b.cross_entropy_loss(b.parameter("logits", {2, 32, 100}));
    const TrainingGraph graph = probe::train(b.finish(), "torch-2.4-cuda");
    CHECK(saved_bytes(graph) == 25604);
    CHECK(allocations(graph, graph.part(PartKind::kForward)) == Sizes{25600, 25600, 4, 4});
    CHECK(allocations(graph, graph.part(PartKind::kBackward)) == Sizes{25600, 25600, 12800});
  }

  TEST_CASE("softmax in fp32 of a bf16 input keeps an fp32 output, its gradient is bf16") {
    ModelBuilder b("probe", DType::kBFloat16);
    const TensorId x = b.parameter("x", {4, 32, 64});
    const TrainingGraph graph =
        train_on_cpu(b, b.add("softmax", {x}, {{"dtype", std::string("fp32")}}));
    CHECK(saved_bytes(graph) == 32768);  // softmax_bf16_to_float
    CHECK(allocations(graph, graph.part(PartKind::kBackward)) == Sizes{16384});
    CHECK(graph.operators[graph.part(PartKind::kBackward).back()].workspace == Bytes(32768));
  }

  TEST_CASE("mse_loss keeps prediction and target, and squares in a tensor of its own") {
    ModelBuilder b("probe", DType::kFloat32);
    b.mse_loss(b.parameter("x", {64, 100}));
    const TrainingGraph graph = probe::train(b.finish(), "torch-1.13-cpu");
    CHECK(saved_bytes(graph) == 0);  // a parameter and an input
    CHECK(graph.operators[graph.part(PartKind::kForward).front()].workspace == Bytes(25600 + 12));
    CHECK(allocations(graph, graph.part(PartKind::kBackward)) == Sizes{25600});
  }
}

}  // namespace
}  // namespace tidemark::loss_test
