// Small rematerialization problems: random ones, and those with recorded answers.
#pragma once

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "graph/core/document.hpp"
#include "policies/remat/problem.hpp"
#include "tests/support/paths.hpp"

namespace tidemark::testing {

// A random graph of forward nodes and their backward nodes, or (`plain`) of forward nodes only.
inline CostGraph random_graph(std::mt19937_64& rng, NodeIndex nodes, bool plain) {
  const auto pick = [&](std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(rng() % static_cast<std::uint64_t>(high - low + 1));
  };
  CostGraph graph;
  graph.name = "random";
  graph.fixed_bytes = Bytes(pick(0, 3));
  const NodeIndex forward = plain ? nodes : nodes / 2;
  const auto add = [&](Phase kind, std::vector<CostNodeId> deps) {
    graph.nodes.push_back({.name = "n",
                           .kind = kind,
                           .cost = pick(0, 6),
                           .bytes = Bytes(pick(0, 5)),
                           .workspace = Bytes(pick(0, 3) == 0 ? pick(1, 4) : 0),
                           .deps = std::move(deps)});
  };
  for (NodeIndex v = 0; v < forward; ++v) {
    std::vector<CostNodeId> deps;
    for (NodeIndex u = 0; u < v; ++u) {
      if (u + 1 == v ? pick(0, 5) > 0 : pick(0, 3) == 0) deps.push_back(CostNodeId(u));
    }
    add(Phase::kForward, deps);
  }
  for (NodeIndex v = forward; !plain && v-- > 0;) {
    std::vector<CostNodeId> deps = graph.nodes[CostNodeId(v)].deps;
    if (pick(0, 1) == 0) deps.push_back(CostNodeId(v));
    for (NodeIndex reader = forward - 1; reader > v; --reader) {
      const std::vector<CostNodeId>& read = graph.nodes[CostNodeId(reader)].deps;
      if (std::find(read.begin(), read.end(), CostNodeId(v)) != read.end()) {
        deps.push_back(CostNodeId(2 * forward - 1 - reader));
      }
    }
    add(Phase::kBackward, deps);
  }
  return graph;
}
inline RematProblem random_problem(std::mt19937_64& rng, NodeIndex nodes, bool plain) {
  return remat_problem(random_graph(rng, nodes, plain));
}

// Makes a random problem in which part of most nodes' output is a node of its own, which some
// readers read in its place: at most twice as many nodes.
inline RematProblem random_problem_with_parts(std::mt19937_64& rng, NodeIndex nodes, bool plain) {
  const CostGraph whole = random_graph(rng, nodes, plain);
  CostGraph graph;
  graph.name = whole.name;
  graph.fixed_bytes = whole.fixed_bytes;
  std::vector<CostNodeId> made;
  std::vector<CostNodeId> part;  // the part, or the node itself where there is none
  for (CostNode node : whole.nodes) {
    for (CostNodeId& dep : node.deps)
      dep = rng() % 2 == 0 ? made[dep.index()] : part[dep.index()];
    std::sort(node.deps.begin(), node.deps.end());
    made.push_back(graph.nodes.push_back(node));
    part.push_back(made.back());
    if (rng() % 3 == 0) continue;
    const auto bytes =
        static_cast<std::int64_t>(rng() % (static_cast<std::uint64_t>(node.bytes.count) + 1));
    part.back() = graph.nodes.push_back({.name = "part",
                                         .kind = node.kind,
                                         .bytes = Bytes(bytes),
                                         .deps = {made.back()},
                                         .part = true});
  }
  return remat_problem(graph);
}

// A chain of `forward` nodes in which every third also reads what came three before it, as in
// residual networks, and its backward nodes: bytes fall and costs rise along the chain, with some
// chance.
inline RematProblem residual_problem(std::mt19937_64& rng, NodeIndex forward) {
  CostGraph graph;
  graph.name = "residual";
  graph.fixed_bytes = Bytes(500);
  const auto add = [&](Phase kind, NodeIndex layer, std::vector<CostNodeId> deps) {
    const auto chance = static_cast<std::int64_t>(rng() % 40);
    graph.nodes.push_back({.name = "n",
                           .kind = kind,
                           .cost = 20 + layer / 2 + chance,
                           .bytes = Bytes(40 + 400 / (1 + layer / 16) + chance),
                           .deps = std::move(deps)});
  };
  for (NodeIndex v = 0; v < forward; ++v) {
    std::vector<CostNodeId> deps;
    if (v >= 3 && v % 3 == 0) deps.push_back(CostNodeId(v - 3));
    if (v > 0) deps.push_back(CostNodeId(v - 1));
    add(Phase::kForward, v, std::move(deps));
  }
  for (NodeIndex v = forward; v-- > 0;) {
    std::vector<CostNodeId> deps = graph.nodes[CostNodeId(v)].deps;
    for (const NodeIndex reader : {v + 3, v + 1}) {
      const bool reads = reader == v + 1 || reader % 3 == 0;
      if (reader < forward && reads) deps.push_back(CostNodeId(2 * forward - 1 - reader));
    }
    add(Phase::kBackward, v, std::move(deps));
  }
  return remat_problem(graph);
}

inline std::int64_t peak_without_repeats(const RematProblem& problem) {
  Schedule once(problem.size());
  std::iota(once.begin(), once.end(), NodeIndex{0});
  return evaluate(problem, once).peak;
}

inline std::filesystem::path recorded_cases() {
  return test::data_path("rematerialization");
}

struct RecordedCase {
  std::string name;
  RematProblem problem;
  nlohmann::json json;
};

inline RecordedCase recorded_case(const std::string& name) {
  const std::string path = (recorded_cases() / (name + ".json")).string();
  std::ifstream file(path);
  return {name, remat_problem(read_cost_graph(path)), nlohmann::json::parse(file)};
}

inline const std::vector<std::string>& recorded_names() {
  static const std::vector<std::string> names{
      "chain_n4",       "chain_n6",       "chain_hom_n8",      "chain_mixedkeep_n10",
      "randdag_s11_n8", "residual_b2_n9", "transformer_l1_n9", "unet_d2_n10"};
  return names;
}

}  // namespace tidemark::testing
