// A check of the order in which a graph lists its vertices.
#pragma once

#include <algorithm>

#include "graph/analysis/dependency_graph.hpp"

namespace tidemark::test {

// Whether every vertex comes after everything that it depends on.
inline bool is_in_topological_order(const DependencyGraph& graph) {
  const auto [first, last] = edges(graph);
  return std::all_of(first, last, [&](const DependencyGraph::edge_descriptor& edge) {
    return source(edge, graph) < target(edge, graph);
  });
}

}  // namespace tidemark::test
