// Describes how cuts pass through the operators of a forward graph, family by family.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "graph/ir/graph.hpp"
#include "graph/rewrite/partition/cut.hpp"

namespace tidemark {

// The layouts that an operator needs of its inputs and makes of its outputs on each rank.
struct Passage {
  std::vector<Layout> wanted;    // layout needed of each input
  std::vector<Layout> made;      // layout made of each output
  bool possible = true;          // false: it needs its inputs whole, and makes whole outputs
  std::int64_t indivisible = 0;  // extent that cannot be divided among the ranks
};

// Returns the passage of a node whose inputs are cut as `inputs` says. Absent inputs, parameters
// and whatever else every rank has count as whole.
[[nodiscard]] Passage pass_through(const Graph& graph, NodeId node, std::span<const Layout> inputs);

// Returns the passage of a node that every rank computes alike.
[[nodiscard]] Passage whole_passage(const Node& node);

// Sets the attributes that name extents of a node to those of one rank.
void localize_attributes(const Graph& graph, NodeId node, std::span<const Layout> wanted,
                         std::span<const Layout> made, Attributes& attributes);

}  // namespace tidemark
