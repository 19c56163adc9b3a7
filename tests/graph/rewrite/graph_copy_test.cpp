#include "graph/rewrite/graph_copy.hpp"

#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "graph/core/document.hpp"
#include "graph/core/errors.hpp"
#include "graph/models/builder.hpp"
#include "graph/models/preset.hpp"
#include "graph/operators/family.hpp"

namespace tidemark::graph_copy_test {
namespace {

Graph build(const ModelPreset& preset) {
  const Value none = parse_document("{}", "s.yaml");
  return preset.build(Decoder(none), {.micro_batch = 1, .dtype = DType::kFloat32});
}

bool same(const Storage& a, const Storage& b) {
  return a.bytes == b.bytes && a.dtype == b.dtype && a.elements == b.elements && a.role == b.role &&
         a.layer == b.layer && a.initial == b.initial && a.persistent == b.persistent &&
         a.home == b.home && a.name == b.name;
}

bool same(const Tensor& a, const Tensor& b) {
  return a.storage == b.storage && a.dtype == b.dtype && a.shape == b.shape &&
         a.strides == b.strides && a.requires_grad == b.requires_grad;
}

bool same(const Node& a, const Node& b) {
  return a.family == b.family && a.attributes.all() == b.attributes.all() && a.inputs == b.inputs &&
         a.outputs == b.outputs && a.layer == b.layer && a.in_place == b.in_place;
}

bool same(const Layer& a, const Layer& b) {
  return a.name == b.name && a.block == b.block;
}

bool same(const Parameter& a, const Parameter& b) {
  return a.name == b.name && a.layer == b.layer && a.shape == b.shape && a.dtype == b.dtype &&
         a.elements == b.elements && a.trained == b.trained && a.tensor == b.tensor &&
         a.storage == b.storage && a.gradient == b.gradient && a.gradient_dtype == b.gradient_dtype;
}

bool same(const LocalVariable& a, const LocalVariable& b) {
  return a.tensor == b.tensor && a.until == b.until;
}

template <class Table>
void check_same(const Table& a, const Table& b) {
  REQUIRE(a.size() == b.size());
  auto other = b.begin();
  for (const auto& item : a)
    CHECK(same(item, *other++));
}

void check_same(const Graph& a, const Graph& b) {
  CHECK(a.name == b.name);
  check_same(a.storages, b.storages);
  check_same(a.tensors, b.tensors);
  check_same(a.nodes, b.nodes);
  check_same(a.layers, b.layers);
  check_same(a.parameters, b.parameters);
  check_same(a.locals, b.locals);
  CHECK(a.logits == b.logits);
  CHECK(a.other_outputs == b.other_outputs);
  CHECK(a.loss == b.loss);
  CHECK(a.samples == b.samples);
  CHECK(a.tokens == b.tokens);
  CHECK(a.blocks == b.blocks);
}

bool is_module(const Node& node) {
  return node.family == find_family("linear") && !node.attributes.flag("transposed_weight");
}

// x W^T + b becomes (x A^T) B^T + b, with factors of rank 2.
Graph with_factors(const Graph& graph) {
  return rewrite_graph(graph, [&](GraphCopy& copy, NodeId id) {
    const Node& node = graph.nodes[id];
    if (!is_module(node)) {
      copy.keep(id);
      return;
    }
    Graph& made = copy.result();
    const std::vector<TensorId> inputs = copy.inputs_of(id);
    const Shape weight = made.tensors[inputs[1]].shape;
    const TensorId a = made.add_parameter("a", {2, weight[1]}, DType::kFloat32, node.layer);
    const TensorId b = made.add_parameter("b", {weight[0], 2}, DType::kFloat32, node.layer);
    const NodeId inner = made.add_node(*node.family, {inputs[0], a, TensorId()}, {}, node.layer);
    const NodeId outer =
        made.add_node(*node.family, {made.output(inner), b, inputs[2]}, {}, node.layer);
    copy.replace(id, made.nodes[outer].outputs);
  });
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("a copy that keeps every node is the graph, field by field, for every preset") {
    for (const ModelPreset& preset : all_presets()) {
      CAPTURE(preset.name);
      const Graph graph = build(preset);
      const Graph copy = rewrite_graph(graph, [](GraphCopy& c, NodeId id) { c.keep(id); });
      check_same(graph, copy);
    }
  }

  TEST_CASE("linears become products of two factors, and everything else stays, for every preset") {
    for (const ModelPreset& preset : all_presets()) {
      CAPTURE(preset.name);
      const Graph graph = build(preset);
      std::size_t linears = 0;
      for (const Node& node : graph.nodes)
        linears += is_module(node) ? 1U : 0U;
      const Graph copy = with_factors(graph);
      CHECK(copy.nodes.size() == graph.nodes.size() + linears);
      CHECK(copy.tensors.size() == graph.tensors.size() + 3 * linears);
      REQUIRE(copy.parameters.size() == graph.parameters.size() + 2 * linears);
      for (ParameterId id : ids_of(graph.parameters)) {
        CHECK(copy.parameters[id].name == graph.parameters[id].name);
        const Parameter& p = copy.parameters[id];
        CHECK(copy.tensors[p.tensor].storage == p.storage);
        CHECK(copy.storages[p.storage].name == p.name);
      }
      CHECK(copy.locals.size() == graph.locals.size());
      for (std::size_t i = 0; i < copy.locals.size(); ++i) {
        CHECK(copy.tensors[copy.locals[i].tensor].shape ==
              graph.tensors[graph.locals[i].tensor].shape);
        CHECK(copy.nodes[copy.locals[i].until].family == graph.nodes[graph.locals[i].until].family);
      }
      CHECK(copy.tensors[copy.logits].shape == graph.tensors[graph.logits].shape);
      CHECK(copy.loss.valid() == graph.loss.valid());
    }
  }

  TEST_CASE("only a parameter that is trained counts as a leaf, a view of it does not") {
    ModelBuilder b("leaves", DType::kFloat32);
    const TensorId w = b.parameter("w", {4, 2});
    b.set_output(b.linear_with(b.input("x", {3, 4}, DType::kFloat32), b.transpose(w, 0, 1)));
    const Graph graph = b.finish();
    static_cast<void>(rewrite_graph(graph, [&](GraphCopy& copy, NodeId id) {
      copy.keep(id);
      CHECK(copy.is_trained(copy.at(w)));
      CHECK_FALSE(copy.is_trained(copy.at(graph.output(id))));
    }));
  }

  TEST_CASE("a node that a rewrite forgets, or gives too many results, is named") {
    ModelBuilder b("m", DType::kFloat32);
    b.set_output(b.activation("relu", b.input("x", {2, 2}, DType::kFloat32)));
    const Graph graph = b.finish();
    CHECK_THROWS_WITH_AS(static_cast<void>(rewrite_graph(graph, [](GraphCopy&, NodeId) {})),
                         "m: relu has become nothing in a rewrite", InternalError);
    const auto twice = [&](GraphCopy& copy, NodeId id) {
      const TensorId x = copy.inputs_of(id).front();
      copy.replace(id, std::vector<TensorId>{x, x});
    };
    CHECK_THROWS_WITH_AS(static_cast<void>(rewrite_graph(graph, twice)),
                         "m: relu has 1 outputs and becomes 2", InternalError);
  }

  TEST_CASE("a copy may have less of a parameter, or none of it") {
    ModelBuilder b("m", DType::kFloat32);
    const TensorId x = b.input("x", {2, 4}, DType::kFloat32);
    const TensorId wide = b.parameter("wide", {6, 4});
    const TensorId other = b.parameter("other", {6, 4});
    const TensorId first = b.linear_with(x, wide);
    b.set_output(b.add_tensors(first, b.linear_with(x, other)));
    const Graph graph = b.finish();
    GraphCopy copy(graph);
    copy.reshape_root(wide, {3, 4});
    copy.drop_root(other);
    const Graph part = rewrite_graph(copy, [&](GraphCopy& of, NodeId id) {
      const Node& node = graph.nodes[id];
      if (node.family->name == "linear" && node.inputs[1] == wide) {
        of.keep(id);
      } else {
        of.replace(id, std::vector<TensorId>{of.result().output(NodeId(0U))});
      }
    });
    CHECK_NOTHROW(check_invariants(part));
    REQUIRE(part.parameters.size() == 1);
    const Parameter& left = part.parameters[ParameterId(0U)];
    CHECK(left.name == "wide");
    CHECK(left.elements.count == 12);
    CHECK(part.storages[left.storage].bytes.count == 12 * 4);
    CHECK(part.tensors[part.logits].shape == Shape{2, 3});
  }
}

}  // namespace tidemark::graph_copy_test
