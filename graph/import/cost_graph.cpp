#include "graph/import/cost_graph.hpp"

#include <array>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "graph/analysis/dependency_graph.hpp"
#include "graph/core/document.hpp"

namespace tidemark {

namespace cost_graph_detail {
namespace {

std::string describe(const CostGraph& graph, std::size_t id) {
  return fmt::format("{} ('{}')", id, graph.nodes[CostNodeId(id)].name);
}

void check_id(const Decoder& node, std::int64_t expected, const CostGraph& so_far) {
  const auto id = node.required<std::int64_t>("id", at_least(0));
  if (id == expected) return;
  if (id < expected) {
    node.fail_at(
        "id", fmt::format("id {} is taken by an earlier node, '{}'; expected {}", id,
                          so_far.nodes[CostNodeId(static_cast<std::size_t>(id))].name, expected));
  }
  node.fail_at("id", fmt::format("expected {}, found {}; ids count from 0 in the order of the list",
                                 expected, id));
}

// Adds `amount` to `total`; an error at `key` when it passes kMaxCostGraphTotal.
void add_up(const Decoder& where, std::string_view key, std::int64_t amount, std::int64_t& total) {
  if (checked_add(total, amount, total) && total <= kMaxCostGraphTotal) return;
  where.fail_at(key, fmt::format("with {} here, the graph's total passes 2^56, the largest that is "
                                 "supported",
                                 amount));
}

struct Totals {
  std::int64_t bytes = 0;
  std::int64_t cost = 0;
};

constexpr std::string_view kLayerEnd = ": ";  // between a layer's name and an operator's

// Reads the layer and the kind of operator of a node, which other programs write into its name
// alone: "h.0.attn: softmax".
void read_operator(const Decoder& d, CostNode& node) {
  const std::size_t end = d.has("operator") ? std::string::npos : node.name.rfind(kLayerEnd);
  const bool has_layer = end != std::string::npos;
  node.layer = d.optional<std::string>("layer", has_layer ? node.name.substr(0, end) : "");
  node.operator_kind = d.optional<std::string>(
      "operator", has_layer ? node.name.substr(end + kLayerEnd.size()) : node.name);
}

CostNode read_node(const Decoder& d, Totals& totals) {
  static constexpr std::array<std::string_view, 2> kKinds = {"forward", "backward"};
  CostNode node;
  node.name = d.required<std::string>("name");
  read_operator(d, node);
  node.kind = d.required_word("kind", kKinds) == "forward" ? Phase::kForward : Phase::kBackward;
  node.cost = d.required<std::int64_t>("cost", at_least(0));
  node.bytes = d.required<Bytes>("bytes");
  node.workspace = d.required<Bytes>("workspace");
  node.once = d.optional<bool>("once", false);
  node.block = d.optional<int>("block", kNoBlock, at_least(kNoBlock));
  node.off_main_path = d.optional<bool>("aside", false);
  node.part = d.optional<bool>("part", false);
  if (node.part && node.workspace > Bytes(0))
    d.fail_at("workspace", "a part of another node's output is made without any");
  if (node.part && node.cost > 0)
    d.fail_at("cost", "a part of another node's output is made with it; expected 0");
  add_up(d, "cost", node.cost, totals.cost);
  add_up(d, "bytes", node.bytes.count, totals.bytes);
  add_up(d, "workspace", node.workspace.count, totals.bytes);
  return node;
}

// Fails at dependency `index` of a node.
[[noreturn]] void fail_at_dependency(const Decoder& node, std::size_t index,
                                     const std::string& problem) {
  const std::vector<Decoder> deps = node.required_child("deps").items();
  deps.at(index).fail(problem);
}

// Fails for a node that depends on a later one. Either the nodes form a cycle, or the list is out
// of order.
[[noreturn]] void fail_out_of_order(const CostGraph& graph, const std::vector<Decoder>& nodes,
                                    std::size_t reader, std::size_t index) {
  DependencyGraph dependencies(graph.nodes.size());
  for (CostNodeId id : ids_of(graph.nodes)) {
    for (CostNodeId dep : graph.nodes[id].deps) {
      boost::add_edge(dep.index(), id.index(), {}, dependencies);
    }
  }
  const std::vector<std::size_t> cycle = find_cycle(dependencies);
  if (cycle.empty()) {
    const std::size_t later = graph.nodes[CostNodeId(reader)].deps[index].index();
    fail_at_dependency(nodes[reader], index,
                       fmt::format("node {} depends on node {}, which comes later in the list; a "
                                   "node must follow everything it depends on",
                                   describe(graph, reader), describe(graph, later)));
  }
  std::string path;
  for (std::size_t id : cycle)
    path += describe(graph, id) + " -> ";
  nodes[cycle.front()].fail_at("deps",
                               "the graph has a cycle: " + path + describe(graph, cycle.front()));
}

void read_dependencies(const Decoder& d, std::size_t reader, CostGraph& graph) {
  if (!d.has("deps")) d.fail_at("deps", "required key is missing; expected a list of node ids");
  const auto count = static_cast<std::int64_t>(graph.nodes.size());
  std::vector<CostNodeId>& deps = graph.nodes[CostNodeId(reader)].deps;
  for (const std::int64_t dep : d.list<std::int64_t>("deps", at_least(0))) {
    if (dep >= count) {
      fail_at_dependency(d, deps.size(),
                         fmt::format("node {} depends on node {}, which does not exist; the graph "
                                     "has {} nodes",
                                     describe(graph, reader), dep, count));
    }
    deps.push_back(CostNodeId(static_cast<std::size_t>(dep)));
  }
}

// Checks that a part belongs to one node, which is no smaller and has no other part.
void check_parts(const CostGraph& graph, const std::vector<Decoder>& nodes) {
  IdVector<CostNodeId, CostNodeId> part_of(graph.nodes.size());
  for (const CostNodeId id : ids_of(graph.nodes)) {
    const CostNode& node = graph.nodes[id];
    if (!node.part) continue;
    const Decoder& where = nodes[id.index()];
    if (node.deps.size() != 1) {
      where.fail_at("part",
                    fmt::format("node {} has {} dependencies; a part is of one node's output",
                                describe(graph, id.index()), node.deps.size()));
    }
    const CostNodeId whole = node.deps.front();
    if (node.bytes > graph.nodes[whole].bytes) {
      where.fail_at("bytes",
                    fmt::format("node {} is larger than node {}, of which it is part",
                                describe(graph, id.index()), describe(graph, whole.index())));
    }
    if (part_of[whole].valid()) {
      where.fail_at(
          "part", fmt::format("node {} has a part already, node {}", describe(graph, whole.index()),
                              describe(graph, part_of[whole].index())));
    }
    part_of[whole] = id;
  }
}

// The node that is part of each node's output, if there is one.
using PartOf = IdVector<CostNodeId, CostNodeId>;

// Adds a storage per node, which holds its output without the bytes of the part.
PartOf add_outputs(const CostGraph& graph, TrainingGraph& training) {
  PartOf part_of(graph.nodes.size());
  for (const CostNode& node : graph.nodes) {
    training.storages.push_back(
        {.bytes = node.bytes,
         .role = node.kind == Phase::kForward ? Role::kTemporary : Role::kActivationGradient,
         .name = node.name});
    if (!node.part) continue;
    const CostNodeId whole = node.deps.front();
    part_of[whole] = CostNodeId(training.storages.size() - 1);
    training.storages[StorageId(whole.index())].bytes -= node.bytes;
  }
  return part_of;
}

// Appends reads of the storages that hold a node's output, each once per operator. An output that
// backward reads is a saved activation.
void add_reads(CostNodeId output, const PartOf& part_of, bool in_backward, TrainingGraph& training,
               std::vector<Touch>& touches) {
  for (; output.valid(); output = part_of[output]) {
    const StorageId storage(output.index());
    Storage& read = training.storages[storage];
    if (in_backward && read.role == Role::kTemporary) read.role = Role::kSavedActivation;
    const auto same = [&](const Touch& touch) { return touch.storage == storage; };
    if (std::any_of(touches.begin(), touches.end(), same)) break;
    touches.push_back({.storage = storage, .access = Access::kRead});
  }
}

}  // namespace
}  // namespace cost_graph_detail

bool is_cost_graph(const Value& document) {
  return document.find("nodes") != nullptr && document.find("fixed_bytes") != nullptr;
}

CostGraph decode_cost_graph(const Decoder& document) {
  CostGraph graph;
  cost_graph_detail::Totals totals;
  graph.name = document.required<std::string>("name");
  graph.fixed_bytes = document.required<Bytes>("fixed_bytes");
  cost_graph_detail::add_up(document, "fixed_bytes", graph.fixed_bytes.count, totals.bytes);
  if (!document.has("nodes")) {
    document.fail_at("nodes", "required key is missing; expected a list of nodes");
  }
  const std::vector<Decoder> nodes = document.required_child("nodes").items();
  if (nodes.empty()) document.fail_at("nodes", "the graph has no nodes");
  graph.nodes.reserve(nodes.size());
  for (const Decoder& node : nodes) {
    cost_graph_detail::check_id(node, static_cast<std::int64_t>(graph.nodes.size()), graph);
    graph.nodes.push_back(cost_graph_detail::read_node(node, totals));
  }
  for (std::size_t i = 0; i < nodes.size(); ++i)
    cost_graph_detail::read_dependencies(nodes[i], i, graph);

  // A stamp per node finds repeated dependencies in linear time.
  IdVector<CostNodeId, std::size_t> last_reader(graph.nodes.size(), nodes.size());
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const std::vector<CostNodeId>& deps = graph.nodes[CostNodeId(i)].deps;
    for (std::size_t k = 0; k < deps.size(); ++k) {
      if (deps[k].index() >= i) cost_graph_detail::fail_out_of_order(graph, nodes, i, k);
      if (std::exchange(last_reader[deps[k]], i) == i) {
        cost_graph_detail::fail_at_dependency(
            nodes[i], k,
            fmt::format("node {} names its dependency on node {} twice",
                        cost_graph_detail::describe(graph, i),
                        cost_graph_detail::describe(graph, deps[k].index())));
      }
    }
  }
  cost_graph_detail::check_parts(graph, nodes);
  return graph;
}

CostGraph read_cost_graph(const std::string& path) {
  const Value document = read_document(path);
  return decode_cost_graph(Decoder(document));
}

TrainingGraph training_graph(const CostGraph& graph) {
  TrainingGraph training;
  training.name = graph.name;
  training.samples = 1;
  training.tensors = graph.nodes.size();
  training.storages.reserve(graph.nodes.size() + 1);
  const cost_graph_detail::PartOf part_of = cost_graph_detail::add_outputs(graph, training);
  training.storages.push_back({.bytes = graph.fixed_bytes,
                               .role = Role::kParameter,
                               .initial = true,
                               .persistent = true,
                               .name = "fixed"});
  bool in_backward = false;
  std::vector<Touch> touches;
  for (CostNodeId id : ids_of(graph.nodes)) {
    const CostNode& node = graph.nodes[id];
    in_backward = in_backward || node.kind == Phase::kBackward;
    touches.clear();
    for (CostNodeId dep : node.deps) {
      if (node.part) dep = id;  // a part reads nothing else of its input
      cost_graph_detail::add_reads(dep, part_of, in_backward, training, touches);
    }
    for (CostNodeId made = node.part ? CostNodeId() : id; made.valid(); made = part_of[made])
      touches.push_back({.storage = StorageId(made.index()), .access = Access::kCreate});
    if (node.once) {
      // A node that may not run twice changes something persistent, here without any bytes.
      const StorageId stays = training.storages.push_back({.bytes = Bytes(0),
                                                           .role = Role::kBuffer,
                                                           .initial = true,
                                                           .persistent = true,
                                                           .name = node.name + ".once"});
      touches.push_back({.storage = stays, .access = Access::kOverwrite});
    }
    Operator op{.name = node.name, .phase = node.kind, .workspace = node.workspace};
    op.work.op_class = OperatorClass::kFixed;
    op.work.fixed = Duration(node.cost);
    const OperatorId kernel = training.add_operator(std::move(op), touches);
    (in_backward ? training.part(PartKind::kBackward) : training.part(PartKind::kForward))
        .push_back(kernel);
  }
  return training;
}

}  // namespace tidemark
