// The forward graph of one rank of a tensor or context group.
#pragma once

#include "graph/ir/graph.hpp"
#include "graph/rewrite/partition/partition_plan.hpp"

namespace tidemark {

// Returns what one rank computes: parameters and activations are its parts, and communication
// brings them together. Throws UserError as plan_partition.
[[nodiscard]] Graph partition_graph(const Graph& given, const PartitionOptions& options);

}  // namespace tidemark
