#include "graph/analysis/dependency_graph.hpp"

#include <sstream>
#include <string>
#include <string_view>

#include <doctest/doctest.h>

#include "graph/import/cost_graph.hpp"
#include "graph/models/builder.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/topological_order.hpp"

namespace tidemark::dependency_graph_test {
namespace {

// y = relu(W x) + W x: node 0 is linear, 1 relu, 2 add.
Graph small_graph() {
  ModelBuilder b("small \"graph\"", DType::kFloat32);
  const TensorId x = b.input("x", {2, 4}, DType::kFloat32);
  const TensorId h = b.linear("fc", x, 8);
  b.set_output(b.add_tensors(b.activation("relu", h), h));
  return b.finish();
}

TEST_SUITE("unit") {
  TEST_CASE("edges run from the producer of a tensor to each of its consumers") {
    const DependencyGraph graph = dependency_graph(small_graph());
    CHECK(num_vertices(graph) == 3);
    CHECK(num_edges(graph) == 3);
    CHECK(edge(0, 1, graph).second);
    CHECK(edge(0, 2, graph).second);
    CHECK(edge(1, 2, graph).second);
    CHECK(graph[edge(0, 1, graph).first].bytes == Bytes(2 * 8 * 4));
    CHECK(test::is_in_topological_order(graph));
    CHECK(find_cycle(graph).empty());
  }

  TEST_CASE(
      "an operator that changes a storage stands between its first writer and later readers") {
    TrainingGraph graph;
    const StorageId value = graph.storages.push_back({.bytes = Bytes(64), .name = "value"});
    const auto add = [&](std::string_view name, Access access) {
      const Touch touch{.storage = value, .access = access};
      graph.part(PartKind::kForward)
          .push_back(graph.add_operator({.name = std::string(name)}, {&touch, 1}));
    };
    add("create", Access::kCreate);
    add("change", Access::kMutate);
    add("read", Access::kRead);
    add("overwrite", Access::kOverwrite);
    const DependencyGraph dependencies = dependency_graph(graph);
    CHECK(num_edges(dependencies) == 2);
    CHECK(edge(0, 1, dependencies).second);
    CHECK(edge(1, 2, dependencies).second);
  }

  TEST_CASE("a cycle is returned with each vertex depending on the one before") {
    DependencyGraph graph(5);
    for (const auto& [from, to] : {std::pair{0, 1}, {1, 2}, {2, 3}, {3, 1}, {3, 4}}) {
      add_edge(static_cast<std::size_t>(from), static_cast<std::size_t>(to), graph);
    }
    CHECK(find_cycle(graph) == std::vector<std::size_t>{1, 2, 3});
    CHECK_FALSE(test::is_in_topological_order(graph));
  }

  TEST_CASE("articulation points are where a chain may be cut") {
    // A skip from 1 to 3 leaves 1 and 3 as the only cuts: 0 - 1 = (2) = 3 - 4.
    DependencyGraph graph(5);
    for (const auto& [from, to] : {std::pair{0, 1}, {1, 2}, {2, 3}, {1, 3}, {3, 4}}) {
      add_edge(static_cast<std::size_t>(from), static_cast<std::size_t>(to), graph);
    }
    CHECK(articulation_points(graph) == std::vector<std::size_t>{1, 3});
    // The middle of a star is one though the search begins there; a ring has none.
    DependencyGraph star(3);
    add_edge(0, 1, star);
    add_edge(0, 2, star);
    CHECK(articulation_points(star) == std::vector<std::size_t>{0});
    add_edge(1, 2, star);
    CHECK(articulation_points(star).empty());
  }

  TEST_CASE("a forward graph is drawn with layers, operators and shapes") {
    std::ostringstream out;
    write_dot(out, small_graph());
    const std::string dot = out.str();
    CHECK(dot.starts_with("digraph \"small \\\"graph\\\"\" {\n"));
    CHECK(dot.find("n0 [label=\"fc\\nlinear\\n[2, 8] fp32, 64 B\"") != std::string::npos);
    CHECK(dot.find("n0 -> n2 [label=\"64 B\"];") != std::string::npos);
    CHECK(dot.ends_with("}\n"));
  }

  TEST_CASE("a training graph is drawn with what each operator leaves behind") {
    std::ostringstream out;
    write_dot(out,
              training_graph(read_cost_graph(test::data_path("rematerialization/chain_n4.json"))));
    const std::string dot = out.str();
    CHECK(dot.find("n4 [label=\"B3\\nB3 17 B\"") != std::string::npos);
    CHECK(dot.find("n2 -> n4 [label=\"17 B\"];") != std::string::npos);
  }
}

}  // namespace
}  // namespace tidemark::dependency_graph_test
