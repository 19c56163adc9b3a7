#include "graph/autodiff/evaluate.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "graph/operators/family.hpp"
#include "graph/operators/generation/cache_operators.hpp"

namespace tidemark {
namespace evaluate_detail {
namespace {

// Tensors of one storage become tensors of another.
void share_storage(Graph& graph, StorageId from, StorageId to) {
  for (Tensor& tensor : graph.tensors) {
    if (tensor.storage == from) tensor.storage = to;
  }
}

void leave_training_mode(Graph& graph) {
  for (Node& node : graph.nodes) {
    switch (node.family->in_evaluation) {
      case InEvaluation::kSame:
        break;
      case InEvaluation::kIdentity: {
        node.attributes.set("p", 0.0);
        if (!node.in_place) {
          share_storage(graph, graph.tensors[node.outputs.front()].storage,
                        graph.tensors[node.inputs.front()].storage);
        }
        node.in_place = false;
        break;
      }
      case InEvaluation::kNothing:
        node.in_place = false;  // its outputs are its inputs, unchanged
        break;
      case InEvaluation::kOwnKernel:
        node.attributes.set("evaluates", std::int64_t{1});
        break;
    }
    if (node.attributes.number("dropout") > 0) node.attributes.set("dropout", 0.0);
  }
}

// Tensors that the model's outputs are computed from.
IdVector<TensorId, char> needed_tensors(const Graph& graph, bool with_loss) {
  IdVector<TensorId, char> needed(graph.tensors.size(), 0);
  if (graph.logits.valid()) needed[graph.logits] = 1;
  if (with_loss && graph.loss.valid()) needed[graph.loss] = 1;
  for (TensorId output : graph.other_outputs)
    needed[output] = 1;
  for (std::size_t i = graph.nodes.size(); i-- > 0;) {
    const Node& node = graph.nodes[NodeId(i)];
    const bool leads = std::any_of(node.outputs.begin(), node.outputs.end(),
                                   [&](TensorId out) { return needed[out] != 0; });
    if (!leads) continue;
    for (TensorId in : node.inputs) {
      if (in.valid()) needed[in] = 1;
    }
  }
  return needed;
}

// Drops the nodes that lead to the loss and to nothing else.
void drop_loss(Graph& graph) {
  const IdVector<TensorId, char> needed = needed_tensors(graph, false);
  IdVector<TensorId, char> for_loss(graph.tensors.size(), 0);
  for_loss[graph.loss] = 1;
  IdVector<NodeId, char> dropped(graph.nodes.size(), 0);
  for (std::size_t i = graph.nodes.size(); i-- > 0;) {
    const NodeId id(i);
    bool leads = false;
    bool wanted = false;
    for (TensorId out : graph.nodes[id].outputs) {
      leads |= for_loss[out] != 0;
      wanted |= needed[out] != 0;
    }
    if (!leads || wanted) continue;
    dropped[id] = 1;
    for (TensorId in : graph.nodes[id].inputs) {
      if (in.valid()) for_loss[in] = 1;
    }
  }
  IdVector<NodeId, Node> kept;
  IdVector<NodeId, NodeId> moved;  // by dropped node: the last kept one before it
  for (NodeId id : ids_of(graph.nodes)) {
    if (dropped[id] == 0) kept.push_back(std::move(graph.nodes[id]));
    moved.push_back(kept.empty() ? NodeId() : NodeId(kept.size() - 1));
  }
  graph.nodes = std::move(kept);
  std::erase_if(graph.locals, [&](LocalVariable& local) {
    if (!local.until.valid()) return false;
    local.until = moved[local.until];
    return !local.until.valid();
  });
  graph.loss = {};
}

// Whether a node is the last one of a forward pass of which generation has several.
bool ends_pass(const Node& node) {
  return node.family == &next_token_family();
}

}  // namespace
}  // namespace evaluate_detail

void keep_inputs_of_blocks(Graph& graph) {
  using evaluate_detail::ends_pass;
  IdVector<TensorId, int> made_in(graph.tensors.size(), kNoBlock);
  IdVector<TensorId, char> is_made(graph.tensors.size(), 0);
  IdVector<TensorId, int> kept_for(graph.tensors.size(), kNoBlock);
  std::map<std::pair<int, int>, NodeId> last;  // last nodes by forward pass and block
  int pass = 0;
  for (NodeId id : ids_of(graph.nodes)) {
    const int block = graph.block_of(graph.nodes[id].layer);
    if (block != kNoBlock) last[{pass, block}] = id;
    pass += ends_pass(graph.nodes[id]) ? 1 : 0;
  }
  pass = 0;
  for (const Node& node : graph.nodes) {
    const int block = graph.block_of(node.layer);
    pass += ends_pass(node) ? 1 : 0;
    for (TensorId in : node.inputs) {
      if (!in.valid() || block == kNoBlock || is_made[in] == 0) continue;
      if (made_in[in] == block || kept_for[in] == block) continue;
      kept_for[in] = block;
      graph.locals.push_back({in, last.at({pass, block}), true});
    }
    for (TensorId out : node.outputs) {
      is_made[out] = 1;
      made_in[out] = block;
    }
  }
}

Graph evaluation_graph(Graph graph, bool with_loss) {
  IdVector<TensorId, char> is_parameter(graph.tensors.size(), 0);
  for (const Parameter& parameter : graph.parameters)
    is_parameter[parameter.tensor] = 1;
  for (TensorId id : ids_of(graph.tensors)) {
    if (is_parameter[id] == 0) graph.tensors[id].requires_grad = false;
  }
  evaluate_detail::leave_training_mode(graph);
  if (!with_loss && graph.loss.valid()) evaluate_detail::drop_loss(graph);
  keep_inputs_of_blocks(graph);
  return graph;
}

}  // namespace tidemark
