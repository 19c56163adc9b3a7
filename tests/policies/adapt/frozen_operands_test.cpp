// The operands that one operator keeps by which side needs a gradient, as probed on PyTorch 1.13.1:
// figures of shared/cases/adapters/frozen-op-probe.csv. Inputs and parameters are kept by
// reference; `made` are the bytes of tensors that are neither.
#include <algorithm>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "graph/operators/family.hpp"

namespace tidemark::frozen_operands_test {
namespace {

struct Kept {
  std::int64_t made = 0;
  bool input = false;
  bool parameter = false;
  bool operator==(const Kept&) const = default;
};

struct Operation {
  std::string family;
  Shape input;
  std::vector<Shape> parameters;  // the weight first
  Attributes attributes;
};

Kept kept(const Operation& operation, bool input_gradient, bool parameter_gradient) {
  Graph graph;
  std::vector<TensorId> inputs{
      graph.add_parameter("x", operation.input, DType::kFloat32, {}, input_gradient)};
  for (const Shape& shape : operation.parameters)
    inputs.push_back(graph.add_parameter("p", shape, DType::kFloat32, {}, parameter_gradient));
  const NodeId id =
      graph.add_node(*find_family(operation.family), inputs, operation.attributes, {});
  const NodeView view(graph, id, *find_framework("torch-1.13-cpu"));
  SavedSet saved(view);
  view.graph().nodes[id].family->save(saved);
  Kept result;
  for (const SavedSet::Extra& extra : saved.extras())
    result.made += bytes_of(extra.dtype, element_count(extra.shape)).count;
  result.made += saved.outputs().empty() ? 0 : view.output().bytes().count;
  for (std::size_t i : saved.inputs())
    (i == 0 ? result.input : result.parameter) = true;
  return result;
}

const Operation kLinear{"linear", {32, 64}, {{64, 64}, {64}}, {}};
const Operation kConvolution{
    "conv2d", {2, 8, 8, 8}, {{8, 8, 3, 3}}, {{"padding", std::int64_t{1}}}};
const Operation kLayerNorm{"layer_norm", {4, 8, 64}, {{64}, {64}}, {}};
const Operation kGroupNorm{"group_norm", {2, 8, 8, 8}, {{8}, {8}}, {{"groups", std::int64_t{4}}}};
const Operation kBatchNorm{"batch_norm", {2, 16, 8, 8}, {{16}, {16}}, {}};
const Operation kEvaluatedBatchNorm{
    "batch_norm", {2, 16, 8, 8}, {{16}, {16}}, {{"evaluates", std::int64_t{1}}}};
const Operation kProduct{"mul", {32, 64}, {{64}}, {}};
const Operation kSum{"add", {32, 64}, {{64}}, {}};

}  // namespace

TEST_SUITE("golden") {
  TEST_CASE("products keep an operand only where its partner needs a gradient") {
    for (const Operation& operation : {kLinear, kProduct}) {
      CHECK(kept(operation, false, true) == Kept{0, true, false});
      CHECK(kept(operation, true, false) == Kept{0, false, true});
      CHECK(kept(operation, true, true) == Kept{0, true, true});
    }
    CHECK(kept(kSum, true, true) == Kept{0, false, false});
  }

  TEST_CASE("convolutions and norms keep their operands whichever side needs a gradient") {
    for (const auto& [input, parameter] : {std::pair{false, true}, {true, false}, {true, true}}) {
      CHECK(kept(kConvolution, input, parameter) == Kept{0, true, true});
      CHECK(kept(kLayerNorm, input, parameter) == Kept{256, true, true});  // 2 x 32 rows x 4 bytes
      CHECK(kept(kGroupNorm, input, parameter) == Kept{64, true, true});   // 2 x 2 x 4 groups
      CHECK(kept(kBatchNorm, input, parameter) == Kept{128, true, true});  // 2 x 16 channels
    }
  }

  TEST_CASE("batch norm in eval keeps its input alone: running statistics are there anyway") {
    CHECK(kept(kEvaluatedBatchNorm, true, false) == Kept{0, true, true});
    CHECK(kept(kEvaluatedBatchNorm, true, true) == Kept{0, true, true});
  }
}

}  // namespace tidemark::frozen_operands_test
