#include "graph/import/cost_graph.hpp"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "graph/core/document.hpp"
#include "graph/core/errors.hpp"
#include "tests/support/paths.hpp"

namespace tidemark::cost_graph_test {
namespace {

struct NodeText {
  std::string id = "0";
  std::string deps = "[]";
  std::string kind = "forward";
  std::string cost = "1";
  std::string bytes = "8";
  std::string workspace = "0";
  std::string part = "false";
};

// One node per line, the first on line 2.
std::string graph_text(const std::vector<NodeText>& nodes, const std::string& fixed = "0") {
  std::string text = R"({"name": "g", "fixed_bytes": )" + fixed + ", \"nodes\": [";
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const NodeText& n = nodes[i];
    text += (i == 0 ? "\n" : ",\n") + std::string(R"({"id": )") + n.id + R"(, "name": "n)" +
            std::to_string(i) + R"(", "kind": ")" + n.kind + R"(", "cost": )" + n.cost +
            R"(, "bytes": )" + n.bytes + R"(, "workspace": )" + n.workspace + R"(, "deps": )" +
            n.deps + (n.part == "false" ? "" : ", \"part\": " + n.part) + "}";
  }
  return text + "\n]}\n";
}

CostGraph read(const std::string& text) {
  const Value document = parse_document(text, "g.json");
  return decode_cost_graph(Decoder(document));
}

// The message for a graph that must not be accepted, without its column.
std::string error_of(const std::string& text) {
  try {
    static_cast<void>(read(text));
  } catch (const UserError& error) {
    const Location& at = error.location();
    return at.file + ":" + std::to_string(at.line) + ": " + error.path() + ": " + error.problem();
  }
  return "accepted";
}

const std::string kData = test::data_path("rematerialization/");

TEST_SUITE("unit") {
  TEST_CASE("a node's name says layer and operator where the file does not") {
    const CostGraph graph = read(R"({"name": "g", "fixed_bytes": 0, "nodes": [
      {"id": 0, "name": "h.0: attn: softmax", "kind": "forward", "cost": 1, "bytes": 8,
       "workspace": 0, "deps": []},
      {"id": 1, "name": "gelu", "kind": "forward", "cost": 1, "bytes": 8, "workspace": 0, "deps": []},
      {"id": 2, "name": "a: b", "layer": "h.1", "operator": "linear", "kind": "forward", "cost": 1,
       "bytes": 8, "workspace": 0, "deps": []}]})");
    const auto node = [&](std::uint32_t id) { return graph.nodes[CostNodeId(id)]; };
    CHECK(node(0).layer == "h.0: attn");
    CHECK(node(0).operator_kind == "softmax");
    CHECK(node(1).layer.empty());
    CHECK(node(1).operator_kind == "gelu");
    CHECK(node(2).layer == "h.1");
    CHECK(node(2).operator_kind == "linear");
  }

  TEST_CASE("a cost graph is read with sizes, kinds and dependencies") {
    const CostGraph graph = read(graph_text(
        {{.id = "0", .cost = "10", .bytes = "100", .workspace = "7"},
         {.id = "1", .deps = "[0]", .kind = "backward", .cost = "20", .bytes = "\"1KiB\""}},
        "55"));
    CHECK(graph.name == "g");
    CHECK(graph.fixed_bytes == Bytes(55));
    REQUIRE(graph.nodes.size() == 2);
    const CostNode& second = graph.nodes[CostNodeId(1U)];
    CHECK(second.kind == Phase::kBackward);
    CHECK(second.cost == 20);
    CHECK(second.bytes == kKiB);
    CHECK(second.deps == std::vector{CostNodeId(0U)});
    CHECK(graph.nodes[CostNodeId(0U)].workspace == Bytes(7));
  }

  TEST_CASE("ids count from 0 in the order of the list") {
    CHECK(error_of(graph_text({{.id = "0"}, {.id = "2"}})) ==
          "g.json:3: nodes[1].id: expected 1, found 2; ids count from 0 in the order of the list");
    CHECK(error_of(graph_text({{.id = "0"}, {.id = "0"}})) ==
          "g.json:3: nodes[1].id: id 0 is taken by an earlier node, 'n0'; expected 1");
  }

  TEST_CASE("a dependency on a node that does not exist is an error at the dependency") {
    CHECK(error_of(graph_text({{.id = "0"}, {.id = "1", .deps = "[0, 9]"}})) ==
          "g.json:3: nodes[1].deps[1]: node 1 ('n1') depends on node 9, which does not exist; the "
          "graph has 2 nodes");
    CHECK(error_of(graph_text({{.id = "0"}, {.id = "1", .deps = "[-1]"}})) ==
          "g.json:3: nodes[1].deps[0]: expected an integer of at least 0, found -1");
  }

  TEST_CASE("a dependency on a later node is an error that names both") {
    CHECK(error_of(graph_text({{.id = "0", .deps = "[1]"}, {.id = "1"}})) ==
          "g.json:2: nodes[0].deps[0]: node 0 ('n0') depends on node 1 ('n1'), which comes later "
          "in the list; a node must follow everything it depends on");
  }

  TEST_CASE("a cycle is found and named") {
    CHECK(error_of(graph_text({{.id = "0"},
                               {.id = "1", .deps = "[0, 3]"},
                               {.id = "2", .deps = "[1]"},
                               {.id = "3", .deps = "[2]"}})) ==
          "g.json:3: nodes[1].deps: the graph has a cycle: 1 ('n1') -> 2 ('n2') -> 3 ('n3') -> 1 "
          "('n1')");
    CHECK(error_of(graph_text({{.id = "0", .deps = "[0]"}})) ==
          "g.json:2: nodes[0].deps: the graph has a cycle: 0 ('n0') -> 0 ('n0')");
  }

  TEST_CASE("a dependency that is named twice is an error") {
    CHECK(error_of(graph_text({{.id = "0"}, {.id = "1", .deps = "[0, 0]"}})) ==
          "g.json:3: nodes[1].deps[1]: node 1 ('n1') names its dependency on node 0 ('n0') twice");
  }

  TEST_CASE("negative and overflowing quantities are errors") {
    CHECK(error_of(graph_text({{.id = "0", .cost = "-3"}})) ==
          "g.json:2: nodes[0].cost: expected an integer of at least 0, found -3");
    CHECK(error_of(graph_text({{.id = "0", .bytes = "-1"}}))
              .starts_with("g.json:2: nodes[0].bytes: "));
    CHECK(error_of(graph_text({{.id = "0", .cost = "1.5"}}))
              .starts_with("g.json:2: nodes[0].cost: expected an integer"));
    CHECK(error_of(graph_text({{.id = "0", .bytes = "99999999999999999999"}}))
              .starts_with("g.json:2: nodes[0].bytes: "));
    // 2^55 + 2^55 is just within the limit of 2^56, one byte more is not.
    const std::string half = "36028797018963968";
    CHECK(error_of(graph_text({{.id = "0", .bytes = half}, {.id = "1", .bytes = half}})) ==
          "accepted");
    CHECK(error_of(graph_text({{.id = "0", .bytes = half}, {.id = "1", .bytes = half}}, "1")) ==
          "g.json:3: nodes[1].bytes: with 36028797018963968 here, the graph's total passes 2^56, "
          "the largest that is supported");
  }

  TEST_CASE("a part is of one node, no larger than it, and its only one") {
    const NodeText whole{.id = "0", .bytes = "10"};
    const NodeText rest{.id = "1", .deps = "[0]", .cost = "0", .bytes = "4", .part = "true"};
    const CostGraph graph = read(graph_text({whole, rest}));
    CHECK(graph.nodes[CostNodeId(1U)].part);
    CHECK(error_of(graph_text({whole, {.id = "1", .cost = "0", .bytes = "4", .part = "true"}})) ==
          "g.json:3: nodes[1].part: node 1 ('n1') has 0 dependencies; a part is of one node's "
          "output");
    CHECK(error_of(graph_text(
              {whole, {.id = "1", .deps = "[0]", .cost = "0", .bytes = "11", .part = "true"}})) ==
          "g.json:3: nodes[1].bytes: node 1 ('n1') is larger than node 0 ('n0'), of which it is "
          "part");
    CHECK(error_of(graph_text(
              {whole,
               rest,
               {.id = "2", .deps = "[0]", .cost = "0", .bytes = "1", .part = "true"}})) ==
          "g.json:4: nodes[2].part: node 0 ('n0') has a part already, node 1 ('n1')");
    CHECK(
        error_of(graph_text(
            {whole, {.id = "1", .deps = "[0]", .bytes = "4", .workspace = "1", .part = "true"}})) ==
        "g.json:3: nodes[1].workspace: a part of another node's output is made without any");
    CHECK(error_of(graph_text({whole, {.id = "1", .deps = "[0]", .bytes = "4", .part = "true"}})) ==
          "g.json:3: nodes[1].cost: a part of another node's output is made with it; expected 0");
    // The whole has 6 of its 10 bytes in a storage of its own; it creates both, and whoever reads
    // it reads both.
    const TrainingGraph training =
        training_graph(read(graph_text({whole, rest, {.id = "2", .deps = "[0, 1]"}})));
    check_invariants(training);
    CHECK(training.storages[StorageId(0U)].bytes == Bytes(6));
    CHECK(training.storages[StorageId(1U)].bytes == Bytes(4));
    CHECK(training.touches_of(OperatorId(0U)).size() == 2);
    CHECK(training.touches_of(OperatorId(1U)).size() == 1);
    CHECK(training.touches_of(OperatorId(2U)).size() == 3);
  }

  TEST_CASE("missing parts of a cost graph are named") {
    CHECK(error_of(R"({"name": "g", "fixed_bytes": 0})") ==
          "g.json:1: nodes: required key is missing; expected a list of nodes");
    CHECK(error_of(R"({"name": "g", "fixed_bytes": 0, "nodes": []})") ==
          "g.json:1: nodes: the graph has no nodes");
    CHECK(error_of(R"({"name": "g", "fixed_bytes": 0, "nodes": [{"id": 0, "name": "a",
        "kind": "sideways"}]})") ==
          "g.json:2: nodes[0].kind: expected one of forward, backward, found 'sideways'");
    CHECK(error_of(R"({"name": "g", "fixed_bytes": 0, "nodes": [{"id": 0, "name": "a",
        "kind": "forward", "cost": 1, "bytes": 1, "workspace": 0}]})") ==
          "g.json:1: nodes[0].deps: required key is missing; expected a list of node ids");
    CHECK(error_of("[1, 2]").find("expected a mapping") != std::string::npos);
  }

  TEST_CASE("a cost graph becomes a training graph of kernels with fixed times") {
    const CostGraph graph = read_cost_graph(kData + "chain_n4.json");
    const TrainingGraph training = training_graph(graph);
    check_invariants(training);
    // Forward F0..F3, backward B3..B0; eight outputs and the fixed bytes.
    CHECK(training.part(PartKind::kForward).size() == 4);
    CHECK(training.part(PartKind::kBackward).size() == 4);
    CHECK(training.storages.size() == 9);
    const Storage& fixed = training.storages.back();
    CHECK(fixed.name == "fixed");
    CHECK(fixed.bytes == Bytes(100));
    CHECK(fixed.role == Role::kParameter);
    CHECK(fixed.initial);
    CHECK(fixed.persistent);
    // B2 costs 15, is node 5 and reads 1, 2 and 4.
    const OperatorId b2(5U);
    CHECK(training.operators[b2].work.fixed == Duration(15));
    CHECK(training.operators[b2].work.op_class == OperatorClass::kFixed);
    CHECK(training.operators[b2].phase == Phase::kBackward);
    CHECK(training.touches_of(b2).size() == 4);
    CHECK(training.storages[StorageId(1U)].role == Role::kSavedActivation);
    CHECK(training.storages[StorageId(5U)].role == Role::kActivationGradient);
  }
}

TEST_SUITE("golden") {
  // README.md of the cases: without recomputation, each value freed after its last reader.
  TEST_CASE("the recorded costs of the example graphs are the sums of their nodes") {
    for (const char* name :
         {"chain_n4", "chain_n6", "chain_hom_n8", "chain_mixedkeep_n10", "randdag_s11_n8",
          "residual_b2_n9", "transformer_l1_n9", "unet_d2_n10"}) {
      CAPTURE(name);
      const std::string path = kData + name + ".json";
      const CostGraph graph = read_cost_graph(path);
      const Value document = read_document(path);
      const Decoder recorded(document);
      std::int64_t cost = 0;
      for (const CostNode& node : graph.nodes)
        cost += node.cost;
      CHECK(cost == recorded.required<std::int64_t>("no_recompute_cost"));
      check_invariants(training_graph(graph));
    }
  }

  TEST_CASE("the peak without recomputation is the recorded one") {
    for (const char* name : {"chain_n4", "residual_b2_n9", "transformer_l1_n9", "unet_d2_n10"}) {
      CAPTURE(name);
      const std::string path = kData + name + ".json";
      const CostGraph graph = read_cost_graph(path);
      const Value document = read_document(path);
      IdVector<CostNodeId, CostNodeId> last_reader(graph.nodes.size());
      for (CostNodeId id : ids_of(graph.nodes)) {
        last_reader[id] = id;
        for (CostNodeId dep : graph.nodes[id].deps)
          last_reader[dep] = id;
      }
      std::int64_t live = graph.fixed_bytes.count;
      std::int64_t peak = live;
      for (CostNodeId id : ids_of(graph.nodes)) {
        live += graph.nodes[id].bytes.count;
        peak = std::max(peak, live + graph.nodes[id].workspace.count);
        for (CostNodeId value : ids_of(graph.nodes)) {
          if (value <= id && last_reader[value] == id) live -= graph.nodes[value].bytes.count;
        }
      }
      CHECK(peak == Decoder(document).required<std::int64_t>("no_recompute_peak"));
    }
  }
}

TEST_SUITE("slow") {
  TEST_CASE("a graph of 20,000 nodes is read and checked") {
    std::vector<NodeText> nodes;
    for (int i = 0; i < 20'000; ++i) {
      const std::string deps =
          i < 2 ? "[]" : "[" + std::to_string(i - 2) + ", " + std::to_string(i - 1) + "]";
      nodes.push_back({.id = std::to_string(i), .deps = deps});
    }
    CHECK(read(graph_text(nodes)).nodes.size() == 20'000);
  }
}

}  // namespace
}  // namespace tidemark::cost_graph_test
