// Copies a forward graph node by node, so that a rewrite says only what a node becomes:
//
//   Graph cast_every_input(const Graph& graph) {
//     return rewrite_graph(graph, [&](GraphCopy& copy, NodeId id) {
//       std::vector<TensorId> inputs = copy.inputs_of(id);
//       for (TensorId& input : inputs)
//         input = cast(copy.result(), input);
//       copy.keep(id, std::move(inputs), graph.nodes[id].attributes);
//     });
//   }
//
// Parameters, layers and blocks keep their ids and roots their order. Variables live until the last
// node that their node has become; the loss and what the model returns are what they have become.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "graph/core/ids.hpp"
#include "graph/ir/graph.hpp"

namespace tidemark {

class GraphCopy {
 public:
  explicit GraphCopy(const Graph& source);

  [[nodiscard]] const Graph& source() const { return source_; }
  // The copy so far; a rewrite adds parameters, nodes and variables to it.
  [[nodiscard]] Graph& result() { return result_; }
  // Returns what a tensor of the source has become; invalid for an absent one.
  [[nodiscard]] TensorId at(TensorId of_source) const {
    return of_source.valid() ? tensor_[of_source] : TensorId();
  }
  [[nodiscard]] std::vector<TensorId> inputs_of(NodeId id) const;
  // Whether a tensor of the copy is a parameter that is trained, and no view of one.
  [[nodiscard]] bool is_trained(TensorId of_result) const;

  // A node of the source as it is, or with other operands. Returns the node of the copy.
  NodeId keep(NodeId id);
  NodeId keep(NodeId id, std::vector<TensorId> inputs, Attributes attributes);
  // The outputs of a node of the source become these tensors of the copy, one each.
  void replace(NodeId id, std::span<const TensorId> outputs);

  // For rewrite_graph: what comes before a node, and what comes after the last one.
  void begin(NodeId id);
  void end(NodeId id);
  [[nodiscard]] Graph finish();

 private:
  void copy_roots(TensorId until);

  const Graph& source_;
  Graph result_;
  TensorId next_;                              // the first tensor of the source not looked at
  IdVector<TensorId, TensorId> tensor_;        // of the source, to those of the copy
  IdVector<NodeId, NodeId> node_;              // to the last node that it has become
  IdVector<StorageId, StorageId> storage_;     // of roots
  IdVector<TensorId, char> is_made_;           // by a node of the source
  IdVector<TensorId, ParameterId> parameter_;  // of the source
  IdVector<TensorId, char> is_trained_;        // of the copy
};

// Calls `rewrite` for every node in order, which keeps or replaces it. Throws InternalError when it
// does neither.
[[nodiscard]] Graph rewrite_graph(const Graph& source,
                                  const std::function<void(GraphCopy&, NodeId)>& rewrite);

}  // namespace tidemark
