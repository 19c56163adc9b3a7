// Places in a forward graph that a partition looks for by structure: what reads a tensor, the table
// of the vocabulary, the product that makes the logits.
#pragma once

#include <vector>

#include "graph/ir/graph.hpp"

namespace tidemark {

// A product of batches with a parameter [experts, out, in], transposed: the experts' products in
// one.
struct StackedWeight {
  TensorId weight;     // the parameter; invalid where the product has none
  TensorId transpose;  // what the product reads of it
};

struct PartitionSites {
  IdVector<TensorId, std::vector<NodeId>> readers;
  IdVector<TensorId, NodeId> maker;           // invalid for roots
  IdVector<TensorId, ParameterId> parameter;  // the parameter whose own tensor it is, no view
  std::int64_t vocabulary = 0;  // rows of the largest table that an input indexes; 0: none
  NodeId logits;                // the product that makes the logits; invalid where none does

  [[nodiscard]] StackedWeight stacked_weight(const Graph& graph, NodeId product) const;
  // Whether the table of an embedding is looked up with what the user gives.
  [[nodiscard]] bool indexed_by_input(const Graph& graph, NodeId embedding) const;
};

[[nodiscard]] PartitionSites find_sites(const Graph& graph);

}  // namespace tidemark
