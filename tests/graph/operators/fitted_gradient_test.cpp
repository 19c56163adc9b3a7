// The engine fits gradients to the inputs of a node once it has returned (validate_outputs): it
// sums them over the axes that were broadcast, and converts them. Measured on PyTorch 1.13.1.
#include <doctest/doctest.h>

#include "tests/graph/operators/probe.hpp"

namespace tidemark::fitted_gradient_test {
namespace {

using probe::Sizes;

Sizes backward_of(ModelBuilder& b, TensorId output) {
  const TrainingGraph graph = probe::train_on_cpu(b, output);
  return probe::allocations(graph, graph.part(PartKind::kBackward));
}

}  // namespace

TEST_SUITE("golden") {
  TEST_CASE("axes of one element that were put in front are summed away, not viewed") {
    ModelBuilder b("probe", DType::kFloat32);
    const TensorId x = b.parameter("x", {1, 1, 8});
    const TensorId bias = b.parameter("bias", {8});
    // at::sum_to makes 32 bytes for bias; x's gradient is the incoming one.
    CHECK(backward_of(b, b.add_tensors(x, bias)) == Sizes{32});
  }

  TEST_CASE("both products are made before one is converted and the other one summed") {
    ModelBuilder b("probe", DType::kFloat32);
    const TensorId x = b.cast(b.parameter("x", {3, 6, 8}), DType::kBFloat16);
    const TensorId scale = b.parameter("scale", {8});
    // 144 elements: two products in fp32, x's in bf16, then scale's sum, and the cast's gradient.
    CHECK(backward_of(b, b.multiply(x, scale)) == Sizes{576, 576, 288, 32, 576});
  }

  TEST_CASE("where makes the gradients of both sides before it fits them") {
    ModelBuilder b("probe", DType::kFloat32);
    const TensorId mask = b.buffer("mask", {8}, DType::kBool);
    const TensorId x = b.parameter("x", {3, 6, 8});
    const TensorId other = b.parameter("other", {8});
    // Each beside a zero of 4 bytes; 32 bytes are the sum for `other`.
    CHECK(backward_of(b, b.add("where", {mask, x, other})) == Sizes{576, 4, 576, 4, 32});
  }

  TEST_CASE("x ** y makes its temporaries in the shapes of base and exponent") {
    ModelBuilder b("probe", DType::kFloat32);
    const TensorId x = b.parameter("x", {3, 6, 8});
    const TensorId y = b.parameter("y", {8});
    // The exponent's: log, product and choice of 576 each, a mask of 144, a zero of 4. The base's:
    // a power and two products, the exponent - 1 of 32, a mask of 8, a zero of 4. The sum is y's.
    CHECK(backward_of(b, b.add("tensor_power", {x, y})) ==
          Sizes{576, 3 * 576 + 144 + 4, 576, 3 * 576 + 32 + 8 + 4, 32});
  }

  TEST_CASE("a number to the power of a tensor is kept, and its logarithm is a number") {
    ModelBuilder b("probe", DType::kFloat32);
    const TensorId y = b.parameter("y", {3, 6, 8});
    const TrainingGraph graph = probe::train_on_cpu(b, b.add("tensor_power", {TensorId(), y}));
    CHECK(probe::saved_bytes(graph) == 576 + 4);  // the result and the number
    CHECK(probe::allocations(graph, graph.part(PartKind::kBackward)) ==
          Sizes{576, 2 * 576 + 4 + 144 + 4});
  }

  TEST_CASE("repeating once copies forward and views the gradient") {
    ModelBuilder b("probe", DType::kFloat32);
    const std::vector<std::int64_t> once{1, 1, 1};
    const TensorId x = b.scale(b.parameter("x", {1, 1, 8}));
    const TrainingGraph graph = probe::train_on_cpu(b, b.add("repeat", {x}, {{"counts", once}}));
    CHECK(probe::allocations(graph, graph.part(PartKind::kForward)).back() == 32);
    CHECK(probe::allocations(graph, graph.part(PartKind::kBackward)) == Sizes{32});  // the scale's
  }

  TEST_CASE("group_norm's formula makes a strided gradient contiguous") {
    ModelBuilder b("probe", DType::kFloat32);
    const TensorId x = b.parameter("x", {3, 8, 6});
    const TensorId y = b.add("group_norm", {x}, {{"groups", std::int64_t{2}}});
    const TensorId weight = b.parameter("weight", {4, 8});
    const TensorId rows = b.add("permute", {y}, {{"axes", std::vector<std::int64_t>{0, 2, 1}}});
    const Sizes sizes = backward_of(b, b.linear_with(b.contiguous(rows), weight));
    CHECK(sizes.back() == 576);  // grad.contiguous() beside the input's gradient
    CHECK(sizes[sizes.size() - 2] == 576);
  }
}

}  // namespace tidemark::fitted_gradient_test
