// Copies a forward graph node by node, so that a rewrite says only what replaces a node:
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
// Layers and blocks keep their ids, parameters and roots their order. A variable lives until the
// last node that replaces its last node; the loss and the model's outputs are replaced likewise.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "graph/core/ids.hpp"
#include "graph/ir/graph.hpp"

namespace tidemark {

class GraphCopy {
 public:
  explicit GraphCopy(const Graph& source);

  [[nodiscard]] const Graph& source() const { return source_; }
  // Returns the copy so far; a rewrite adds parameters, nodes and variables to it.
  [[nodiscard]] Graph& result() { return result_; }
  // Returns the copy's tensor for a tensor of the source; invalid for an absent one.
  [[nodiscard]] TensorId at(TensorId of_source) const {
    return of_source.valid() ? tensor_[of_source] : TensorId();
  }
  [[nodiscard]] std::vector<TensorId> inputs_of(NodeId id) const;
  // Returns the source's parameter that is a tensor; invalid for a tensor that is none.
  [[nodiscard]] ParameterId parameter_of(TensorId of_source) const { return parameter_[of_source]; }
  // Adds a parameter that is trained beside the frozen ones, of the role of an adapter. In the
  // order of registration it follows `behind`, a parameter of the source, and what was added behind
  // that before; without one it comes last.
  TensorId add_adapter(std::string name, const Shape& shape, DType dtype, LayerId layer,
                       ParameterId behind = {});
  // Whether a tensor of the copy is a parameter that is trained, and no view of one.
  [[nodiscard]] bool is_trained(TensorId of_result) const;

  // Copies a node of the source as it is, or with other operands. Returns the node of the copy.
  NodeId keep(NodeId id);
  NodeId keep(NodeId id, std::vector<TensorId> inputs, Attributes attributes);
  // Makes these tensors of the copy replace the outputs of a node of the source, one each.
  void replace(NodeId id, std::span<const TensorId> outputs);

  // Gives the copy of a root another shape. Before the first step only.
  void reshape_root(TensorId of_source, const Shape& shape);
  // Freezes a parameter: it needs no gradient. Before the first step only.
  void freeze_root(TensorId of_source);
  // Gives the copy of a root another type. Before the first step only.
  void retype_root(TensorId of_source, DType dtype) { types_[of_source] = dtype; }
  // Gives the copy of a root another order in memory. Before the first step only.
  void order_root(TensorId of_source, const Strides& strides) { orders_[of_source] = strides; }
  // Leaves a root out of the copy: no node of the copy may read it. Before the first step only.
  void drop_root(TensorId of_source);

  // Steps of rewrite_graph before each node and after the last one.
  void begin(NodeId id);
  void end(NodeId id);
  [[nodiscard]] Graph finish();

 private:
  void copy_roots(TensorId until);
  void order_parameters();

  const Graph& source_;
  Graph result_;
  TensorId next_;                        // the first tensor of the source that has not been copied
  IdVector<TensorId, TensorId> tensor_;  // tensors of the source to those of the copy
  IdVector<NodeId, NodeId> node_;  // nodes of the source to the last of the copy that replaces each
  IdVector<StorageId, StorageId> storage_;     // root storages of the source to those of the copy
  IdVector<TensorId, char> is_made_;           // tensors that a node of the source makes
  IdVector<TensorId, ParameterId> parameter_;  // parameters of the source's tensors
  IdVector<TensorId, char> is_trained_;        // tensors of the copy that are trained
  std::vector<ParameterId> behind_;  // of each added parameter: that of the source before it
  std::map<TensorId, std::optional<Shape>> changed_;  // roots with another shape; none: dropped
  std::map<TensorId, DType> types_;                   // roots with another type
  std::map<TensorId, Strides> orders_;                // roots with other strides
  std::set<TensorId> frozen_;                         // parameters of the source that are frozen
};

// Calls `rewrite` for every node in order, which keeps or replaces it. Throws InternalError when it
// does neither.
[[nodiscard]] Graph rewrite_graph(const Graph& source,
                                  const std::function<void(GraphCopy&, NodeId)>& rewrite);
// Rewrites the source of `copy`, whose roots have been changed already: `rewrite` keeps or replaces
// every node in order.
[[nodiscard]] Graph rewrite_graph(GraphCopy& copy,
                                  const std::function<void(GraphCopy&, NodeId)>& rewrite);

}  // namespace tidemark
