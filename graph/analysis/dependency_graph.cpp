#include "graph/analysis/dependency_graph.hpp"

#include <algorithm>
#include <span>
#include <string>
#include <string_view>

#include <boost/graph/depth_first_search.hpp>
#include <fmt/format.h>

#include "graph/operators/family.hpp"

namespace tidemark {

namespace dependency_graph_detail {
namespace {

using Vertex = DependencyGraph::vertex_descriptor;
using Edge = DependencyGraph::edge_descriptor;

// Records the first edge that leads back to a vertex from which the search came.
class CycleFinder : public boost::default_dfs_visitor {
 public:
  CycleFinder(std::vector<Vertex>& came_from, std::vector<Vertex>& cycle)
      : came_from_(came_from), cycle_(cycle) {}

  void tree_edge(Edge edge, const DependencyGraph& graph) {
    came_from_[target(edge, graph)] = source(edge, graph);
  }
  void back_edge(Edge edge, const DependencyGraph& graph) {
    if (!cycle_.empty()) return;
    const Vertex first = target(edge, graph);
    for (Vertex v = source(edge, graph); v != first; v = came_from_[v])
      cycle_.push_back(v);
    cycle_.push_back(first);
    std::reverse(cycle_.begin(), cycle_.end());
  }

 private:
  std::vector<Vertex>& came_from_;
  std::vector<Vertex>& cycle_;
};

using UndirectedGraph = boost::adjacency_list<boost::vecS, boost::vecS, boost::undirectedS>;

// The state of a vertex in the search (Tarjan 1972, Hopcroft and Tarjan 1973).
struct Reach {
  std::size_t found = 0;     // step at which the search came to it
  std::size_t earliest = 0;  // the earliest vertex that it or those found from it touch
  std::size_t from = 0;      // the vertex before it; itself for a root
  std::size_t children = 0;
  bool cuts = false;  // a vertex found from it reaches nothing earlier
};

// boost::articulation_points does the same through a colour map that clang's analyzer misreads.
class CutFinder : public boost::default_dfs_visitor {
 public:
  explicit CutFinder(std::vector<Reach>& reach) : reach_(reach) {}

  void start_vertex(Vertex v, const UndirectedGraph& /*graph*/) { reach_[v].from = v; }
  void discover_vertex(Vertex v, const UndirectedGraph& /*graph*/) {
    reach_[v].found = reach_[v].earliest = ++time_;
  }
  void tree_edge(UndirectedGraph::edge_descriptor edge, const UndirectedGraph& graph) {
    const Vertex v = target(edge, graph);
    reach_[v].from = source(edge, graph);
    ++reach_[source(edge, graph)].children;
  }
  void back_edge(UndirectedGraph::edge_descriptor edge, const UndirectedGraph& graph) {
    Reach& reach = reach_[source(edge, graph)];
    reach.earliest = std::min(reach.earliest, reach_[target(edge, graph)].found);
  }
  void finish_vertex(Vertex v, const UndirectedGraph& /*graph*/) {
    const Reach& reach = reach_[v];
    if (reach.from == v) {
      reach_[v].cuts = reach.children > 1;
      return;
    }
    Reach& before = reach_[reach.from];
    before.earliest = std::min(before.earliest, reach.earliest);
    before.cuts = before.cuts || reach.earliest >= before.found;
  }

 private:
  std::vector<Reach>& reach_;
  std::size_t time_ = 0;
};

// The text of a DOT string.
std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += c;
  }
  return result;
}

void write_vertex(std::ostream& out, std::size_t vertex, std::string_view layer,
                  std::string_view name, std::string_view result, std::string_view colour) {
  std::string label;
  for (const std::string_view line : {layer, name, result}) {
    if (line.empty()) continue;
    if (!label.empty()) label += "\\n";
    label += escaped(line);
  }
  out << fmt::format("  n{} [label=\"{}\", fillcolor=\"{}\"];\n", vertex, label, colour);
}

void write_header(std::ostream& out, std::string_view name) {
  out << fmt::format(
      "digraph \"{}\" {{\n"
      "  node [shape=box, style=filled, fontname=\"sans-serif\", fontsize=10];\n"
      "  edge [fontname=\"sans-serif\", fontsize=8];\n",
      escaped(name));
}

void write_edges(std::ostream& out, const DependencyGraph& graph) {
  for (const Edge edge : boost::make_iterator_range(edges(graph))) {
    out << fmt::format("  n{} -> n{} [label=\"{}\"];\n", source(edge, graph), target(edge, graph),
                       format_bytes(graph[edge].bytes));
  }
  out << "}\n";
}

// "[2, 128, 768] bf16, 384 KiB" for each output.
std::string describe_outputs(const Graph& graph, const Node& node) {
  std::string text;
  for (TensorId id : node.outputs) {
    const Tensor& tensor = graph.tensors[id];
    if (!text.empty()) text += "; ";
    text += fmt::format("{} {}, {}", to_string(tensor.shape), name_of(tensor.dtype),
                        format_bytes(tensor.bytes()));
  }
  return text;
}

// Describes the effects of an operator: "creates relu 1 MiB, changes weight.grad".
std::string describe_results(const TrainingGraph& graph, OperatorId id) {
  std::string text;
  for (const Touch& touch : graph.touches_of(id)) {
    if (touch.access == Access::kRead) continue;
    const Storage& storage = graph.storages[touch.storage];
    if (!text.empty()) text += "; ";
    text += fmt::format("{}{} {}", touch.access == Access::kCreate ? "" : "changes ", storage.name,
                        format_bytes(storage.bytes));
  }
  return text;
}

}  // namespace
}  // namespace dependency_graph_detail

DependencyGraph dependency_graph(const Graph& graph) {
  DependencyGraph dependencies(graph.nodes.size());
  IdVector<TensorId, NodeId> producer(graph.tensors.size());
  for (NodeId id : ids_of(graph.nodes)) {
    std::vector<TensorId> read;
    for (TensorId input : graph.nodes[id].inputs) {
      if (!input.valid() || !producer[input].valid()) continue;
      if (std::find(read.begin(), read.end(), input) != read.end()) continue;  // x * x
      read.push_back(input);
      const Tensor& tensor = graph.tensors[input];
      add_edge(producer[input].index(), id.index(), {tensor.storage, tensor.bytes()}, dependencies);
    }
    for (TensorId output : graph.nodes[id].outputs)
      producer[output] = id;
  }
  return dependencies;
}

DependencyGraph dependency_graph(const TrainingGraph& graph) {
  DependencyGraph dependencies(graph.operators.size());
  IdVector<StorageId, OperatorId> writer(graph.storages.size());
  for (const std::span<const OperatorId> part :
       {std::span<const OperatorId>(graph.part(PartKind::kForward)),
        std::span<const OperatorId>(graph.part(PartKind::kBackward))}) {
    for (OperatorId id : part) {
      for (const Touch& touch : graph.touches_of(id)) {
        const bool needs_content = touch.access == Access::kRead || touch.access == Access::kMutate;
        const OperatorId from = writer[touch.storage];
        if (needs_content && from.valid()) {
          add_edge(from.index(), id.index(), {touch.storage, graph.storages[touch.storage].bytes},
                   dependencies);
        }
        if (touch.access != Access::kRead) writer[touch.storage] = id;
      }
    }
  }
  return dependencies;
}

std::vector<std::size_t> find_cycle(const DependencyGraph& graph) {
  std::vector<dependency_graph_detail::Vertex> cycle;
  std::vector<dependency_graph_detail::Vertex> came_from(num_vertices(graph));
  std::vector<boost::default_color_type> colours(num_vertices(graph));
  const auto colour_map =
      make_iterator_property_map(colours.begin(), get(boost::vertex_index, graph));
  depth_first_search(graph, dependency_graph_detail::CycleFinder(came_from, cycle), colour_map);
  return cycle;
}

std::vector<std::size_t> articulation_points(const DependencyGraph& graph) {
  dependency_graph_detail::UndirectedGraph undirected(num_vertices(graph));
  for (const dependency_graph_detail::Edge edge : boost::make_iterator_range(edges(graph))) {
    add_edge(source(edge, graph), target(edge, graph), undirected);
  }
  std::vector<dependency_graph_detail::Reach> reach(num_vertices(graph));
  std::vector<boost::default_color_type> colours(num_vertices(graph));
  const auto colour_map =
      make_iterator_property_map(colours.begin(), get(boost::vertex_index, undirected));
  depth_first_search(undirected, dependency_graph_detail::CutFinder(reach), colour_map);
  std::vector<std::size_t> points;
  for (std::size_t v = 0; v < reach.size(); ++v) {
    if (reach[v].cuts) points.push_back(v);
  }
  return points;
}

void write_dot(std::ostream& out, const Graph& graph) {
  dependency_graph_detail::write_header(out, graph.name);
  for (NodeId id : ids_of(graph.nodes)) {
    const Node& node = graph.nodes[id];
    const std::string_view layer =
        node.layer.valid() ? std::string_view(graph.layers[node.layer].name) : std::string_view();
    dependency_graph_detail::write_vertex(out, id.index(), layer, node.family->name,
                                          dependency_graph_detail::describe_outputs(graph, node),
                                          "#dbe9f6");
  }
  dependency_graph_detail::write_edges(out, dependency_graph(graph));
}

void write_dot(std::ostream& out, const TrainingGraph& graph) {
  dependency_graph_detail::write_header(out, graph.name);
  for (const auto* part : {&graph.part(PartKind::kForward), &graph.part(PartKind::kBackward)}) {
    const std::string_view colour = part == &graph.part(PartKind::kForward) ? "#dbe9f6" : "#fde3cf";
    for (OperatorId id : *part) {
      const Operator& op = graph.operators[id];
      dependency_graph_detail::write_vertex(out, id.index(), graph.layer_name(op.layer), op.name,
                                            dependency_graph_detail::describe_results(graph, id),
                                            colour);
    }
  }
  dependency_graph_detail::write_edges(out, dependency_graph(graph));
}

}  // namespace tidemark
