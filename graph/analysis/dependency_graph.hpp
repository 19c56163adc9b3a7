// Graphs of who waits for whose results, as Boost.Graph sees them. They serve building, checking
// and drawing; the simulator never walks them.
#pragma once

#include <cstddef>
#include <ostream>
#include <vector>

#include <boost/graph/adjacency_list.hpp>

#include "graph/ir/graph.hpp"
#include "graph/ir/training_graph.hpp"

namespace tidemark {

// An edge runs from the producer of a storage's content to a consumer of it.
struct Dependency {
  StorageId storage;
  Bytes bytes;
};

// Vertex i is node i of a Graph, or operator i of a TrainingGraph; operators that belong to neither
// forward nor backward have no edges.
using DependencyGraph = boost::adjacency_list<boost::vecS, boost::vecS, boost::bidirectionalS,
                                              boost::no_property, Dependency>;

[[nodiscard]] DependencyGraph dependency_graph(const Graph& graph);
// Returns the graph of forward and backward operators; an operator that changes a storage consumes
// the old content and produces the new.
[[nodiscard]] DependencyGraph dependency_graph(const TrainingGraph& graph);

// Returns the vertices of one cycle, each depending on the one before; empty when there is none.
[[nodiscard]] std::vector<std::size_t> find_cycle(const DependencyGraph& graph);
// Returns the vertices without which the graph, seen without directions, falls apart, in ascending
// order. There a chain of checkpointed segments may be cut.
[[nodiscard]] std::vector<std::size_t> articulation_points(const DependencyGraph& graph);

// Writes Graphviz: a box per node with layer, operator and result; an edge per dependency with its
// bytes.
void write_dot(std::ostream& out, const Graph& graph);
void write_dot(std::ostream& out, const TrainingGraph& graph);

}  // namespace tidemark
