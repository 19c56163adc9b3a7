// These tests break a forward graph and check that the check of its invariants finds it out.
#include "graph/ir/graph.hpp"

#include <functional>

#include <doctest/doctest.h>

#include "graph/core/errors.hpp"
#include "graph/operators/family.hpp"

namespace tidemark::graph_test {

namespace {

// x -> relu -> sigmoid, in one layer of block 0.
Graph chain() {
  Graph graph;
  graph.name = "chain";
  graph.blocks = 1;
  const LayerId layer = graph.add_layer("h.0", 0);
  const TensorId x = graph.add_input("x", Shape{2, 3}, DType::kFloat32);
  const NodeId first = graph.add_node(*find_family("relu"), {x}, {}, layer);
  const NodeId second = graph.add_node(*find_family("sigmoid"), {graph.output(first)}, {}, layer);
  graph.logits = graph.output(second);
  return graph;
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("a forward graph that a pass has broken is found out") {
    CHECK_NOTHROW(check_invariants(chain()));
    const auto second = NodeId(1U);
    const std::function<void(Graph&)> breaks[] = {
        // reads its own output, or that of a later node
        [&](Graph& g) { g.nodes[second].inputs[0] = g.output(second); },
        [&](Graph& g) { g.nodes[NodeId(0U)].inputs[0] = g.output(second); },
        [&](Graph& g) { g.nodes[second].inputs[0] = TensorId(g.tensors.size()); },
        [&](Graph& g) { g.nodes[second].outputs[0] = g.output(NodeId(0U)); },
        [&](Graph& g) { g.nodes[second].family = nullptr; },
        [&](Graph& g) { g.nodes[second].layer = LayerId(7U); },
        [&](Graph& g) { g.tensors[g.logits].storage = StorageId(); },
        [&](Graph& g) { g.layers[LayerId(0U)].block = 1; },
        [&](Graph& g) { g.logits = TensorId(99U); },
        [&](Graph& g) { g.other_outputs.push_back(TensorId(99U)); },
        [&](Graph& g) { g.locals.push_back({.tensor = g.logits, .until = NodeId(5U)}); },
    };
    for (const std::function<void(Graph&)>& break_it : breaks) {
      Graph graph = chain();
      break_it(graph);
      CHECK_THROWS_AS(check_invariants(graph), InternalError);
    }
  }
}

}  // namespace tidemark::graph_test
