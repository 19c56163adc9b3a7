#include "graph/ir/parameter.hpp"

#include <doctest/doctest.h>

#include "graph/autodiff/differentiate.hpp"
#include "graph/models/builder.hpp"

namespace tidemark::parameter_test {
namespace {

// y = b(relu(a(x))), where a is frozen and c is not used.
Graph frozen_first() {
  Graph graph = [] {
    ModelBuilder b("two", DType::kBFloat16);
    const TensorId x = b.input("x", {2, 4}, DType::kBFloat16);
    const TensorId hidden = b.activation("relu", b.linear("a", x, 8, false));
    static_cast<void>(b.parameter("c", {3}));
    b.set_output(b.linear("b", hidden, 2, false));
    return b.finish();
  }();
  return graph;
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("the table knows shape, type, elements and storage of every parameter") {
    const Graph graph = frozen_first();
    REQUIRE(graph.parameters.size() == 3);
    const Parameter& a = graph.parameters[ParameterId(0U)];
    CHECK(a.name == "a.weight");
    CHECK(a.shape == Shape{8, 4});
    CHECK(a.dtype == DType::kBFloat16);
    CHECK(a.elements.count == 32);
    CHECK(graph.layers[a.layer].name == "a");
    CHECK(graph.storages[a.storage].bytes == Bytes(64));
    CHECK(graph.storages[a.storage].elements.count == 32);
    CHECK(graph.storages[a.storage].dtype == DType::kBFloat16);
    CHECK(graph.parameter_count().count == 32 + 3 + 16);
  }

  TEST_CASE("frozen parameters stay in the table of the training graph, without a gradient") {
    Graph graph = frozen_first();
    Parameter& frozen = graph.parameters[ParameterId(0U)];
    frozen.trained = false;
    graph.tensors[frozen.tensor].requires_grad = false;
    CHECK(graph.trainable_parameter_count().count == 3 + 16);
    const TrainingGraph training =
        differentiate(graph, *find_framework("torch-2.4-cuda"), {.gradient_dtype = {}});
    REQUIRE(training.parameters.size() == 3);
    CHECK(parameter_elements(training.parameters) == Elements(51));
    CHECK(trained_elements(training.parameters) == Elements(19));
    CHECK_FALSE(training.parameters[ParameterId(0U)].gradient.valid());
    CHECK_FALSE(training.parameters[ParameterId(1U)].gradient.valid());  // the loss needs no c
    REQUIRE(training.trained == std::vector<ParameterId>{ParameterId(2U)});
    const Parameter& b = training.parameters[ParameterId(2U)];
    CHECK(training.storages[b.gradient].name == "b.weight.grad");
    CHECK(training.storages[b.gradient].elements.count == 16);
    REQUIRE(training.updates.size() == 1);
    CHECK(training.updates.front().updated == b.storage);
    CHECK(training.updates.front().elements == b.elements);
  }
}

}  // namespace tidemark::parameter_test
