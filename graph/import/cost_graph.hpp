// Training graphs of rematerialization research: operators with a cost and an output size, nothing
// else. The file is the JSON of "remat-acceptance-v1":
//   {"name": ..., "fixed_bytes": ..., "nodes": [{"id", "name", "kind": "forward" | "backward",
//    "cost", "bytes", "workspace", "deps": [ids]}, ...]}
// and, where a node may not be computed twice, "once": true; the repeated block of a model that a
// forward node belongs to, "block": number; for a forward node off the main path from the samples
// to the loss, "aside": true; where the output of a node is part of its one input's, "part": true;
// the layer of a node and the kind of its operator, "layer" and "operator". Without "operator" the
// name is read as "LAYER: OPERATOR", or as the operator's.
// Ids count from 0 in the order of the list, which is a topological order; other keys are ignored.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/core/decoder.hpp"
#include "graph/core/ids.hpp"
#include "graph/core/units.hpp"
#include "graph/ir/training_graph.hpp"

namespace tidemark {

using CostNodeId = Id<struct CostNodeTag>;

struct CostNode {
  std::string name;
  std::string layer;             // name of the layer; empty where the graph has none
  std::string operator_kind;     // "linear", "softmax", ...; empty for what is no operator
  Phase kind = Phase::kForward;  // forward or backward
  std::int64_t cost = 0;         // abstract units of time
  Bytes bytes;                   // bytes of the output, resident from compute to free
  Bytes workspace;               // bytes during compute only
  std::vector<CostNodeId> deps;  // nodes whose outputs must be resident; each earlier in the list
  bool once = false;             // changes persistent memory, so it may not be recomputed
  int block = kNoBlock;          // repeated block that it belongs to
  // A forward node off the main path from the samples to the loss: made of parameters alone (a
  // weight's cast), without gradient (a mask), or read by backward only.
  bool off_main_path = false;
  // The output is part of the node's one input: while the part is made, both together take no more
  // than the input. Its cost and its workspace are 0.
  bool part = false;
};

struct CostGraph {
  std::string name;
  Bytes fixed_bytes;  // resident all the time: parameters, their gradients, inputs
  IdVector<CostNodeId, CostNode> nodes;
};

// Upper limit of the sum of all sizes and of that of all costs, so that no schedule that repeats
// every node a few times leaves 63 bits.
inline constexpr std::int64_t kMaxCostGraphTotal = std::int64_t{1} << 56;

// Reads a cost graph. Throws UserError with the line: ids that are not 0, 1, 2, ..., dependencies
// on missing or later nodes, cycles (named), duplicates, negative or overflowing quantities, parts
// of nothing or larger than their whole or at a cost, an empty graph.
[[nodiscard]] CostGraph read_cost_graph(const std::string& path);
[[nodiscard]] CostGraph decode_cost_graph(const Decoder& document);
// Whether a document looks like a cost graph: it has fixed_bytes and nodes.
[[nodiscard]] bool is_cost_graph(const Value& document);

// Returns a cost graph as kernels: node i is operator i and creates one storage, its output; one
// unit of cost is one nanosecond on every device. `fixed_bytes` is one persistent storage, "fixed".
// Forward is everything before the first backward node. There are no blocks and no optimizer. A
// node of which another is part creates that one's storage too, and whoever reads the whole reads
// both.
[[nodiscard]] TrainingGraph training_graph(const CostGraph& graph);

}  // namespace tidemark
