#include "graph/rewrite/vocabulary_loss.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "graph/operators/communication/vocabulary.hpp"
#include "graph/operators/family.hpp"
#include "graph/operators/known_families.hpp"
#include "graph/rewrite/graph_copy.hpp"
#include "graph/rewrite/maker_of.hpp"

namespace tidemark {
namespace vocabulary_loss_detail {
namespace {

// Returns the only node from `first` on that reads the tensor's storage; invalid where there are
// more or none.
NodeId only_reader(const Graph& graph, TensorId tensor, NodeId first) {
  const StorageId storage = graph.tensors[tensor].storage;
  NodeId reader;
  for (NodeId id : ids_of(graph.nodes)) {
    if (id < first) continue;
    for (TensorId in : graph.nodes[id].inputs) {
      if (!in.valid() || graph.tensors[in].storage != storage) continue;
      if (reader.valid() && reader != id) return {};
      reader = id;
    }
  }
  return reader;
}

bool is_returned(const Graph& graph, TensorId tensor) {
  const StorageId storage = graph.tensors[tensor].storage;
  return std::any_of(graph.other_outputs.begin(), graph.other_outputs.end(),
                     [&](TensorId out) { return graph.tensors[out].storage == storage; });
}

}  // namespace
}  // namespace vocabulary_loss_detail

TensorId add_vocabulary_loss(Graph& graph, TensorId logits, TensorId targets, LayerId layer,
                             const std::function<TensorId(TensorId)>& over_ranks) {
  const auto add = [&](const OperatorFamily& family, std::vector<TensorId> inputs) {
    return graph.add_node(family, std::move(inputs), {}, layer);
  };
  const TensorId maxima = over_ranks(graph.output(add(row_maximum_family(), {logits})));
  const NodeId split = add(exponentials_family(), {logits, maxima, targets});
  const std::vector<TensorId> made = graph.nodes[split].outputs;
  const TensorId chosen = over_ranks(made[1]);
  const TensorId sums = over_ranks(made[2]);
  return graph.output(add(vocabulary_loss_family(), {made[0], chosen, sums, made[3], made[4]}), 1);
}

std::optional<ScoresAndLoss> find_scores_and_loss(const Graph& graph) {
  using vocabulary_loss_detail::is_returned;
  using vocabulary_loss_detail::only_reader;
  if (!graph.loss.valid()) return std::nullopt;
  ScoresAndLoss found{.scores = {}, .loss = maker_of(graph, graph.loss)};
  if (!found.loss.valid() || graph.nodes[found.loss].family != &nll_loss_family())
    return std::nullopt;
  const TensorId log_probabilities = graph.nodes[found.loss].inputs.front();
  found.scores = maker_of(graph, log_probabilities);
  if (!found.scores.valid() || graph.nodes[found.scores].family != &log_softmax_family())
    return std::nullopt;
  const TensorId scores = graph.nodes[found.scores].inputs.front();
  const Shape& shape = graph.tensors[scores].shape;
  if (shape.rank() != 2) return std::nullopt;
  found.classes = shape[1];
  const bool alone = only_reader(graph, log_probabilities, found.scores) == found.loss &&
                     only_reader(graph, scores, found.scores) == found.scores &&
                     !is_returned(graph, scores) && !is_returned(graph, log_probabilities);
  return alone ? std::optional(found) : std::nullopt;
}

Graph with_vocabulary_loss(const Graph& graph, const ScoresAndLoss& found) {
  return rewrite_graph(graph, [&](GraphCopy& copy, NodeId id) {
    if (id == found.scores) {
      TensorId logits = copy.at(graph.nodes[id].inputs.front());
      if (copy.result().tensors[logits].dtype != DType::kFloat32) {
        const NodeId cast = copy.result().add_node(
            *find_family("cast"), {logits}, {{"dtype", std::string(name_of(DType::kFloat32))}},
            graph.nodes[id].layer);
        logits = copy.result().output(cast);
      }
      return copy.replace(id, std::array{logits});
    }
    if (id != found.loss) {
      copy.keep(id);
      return;
    }
    const Node& loss = graph.nodes[id];
    copy.replace(id, std::array{add_vocabulary_loss(copy.result(), copy.at(loss.inputs[0]),
                                                    copy.at(loss.inputs[1]), loss.layer,
                                                    [](TensorId whole) { return whole; })});
  });
}

}  // namespace tidemark
