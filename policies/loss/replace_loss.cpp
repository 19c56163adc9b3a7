#include "policies/loss/replace_loss.hpp"

#include <algorithm>
#include <bit>
#include <string>
#include <utility>
#include <vector>

#include "graph/operators/family.hpp"
#include "graph/operators/losses/chunked_losses.hpp"
#include "graph/rewrite/graph_copy.hpp"
#include "policies/loss/head_and_loss.hpp"

namespace tidemark {
namespace replace_loss_detail {
namespace {

std::int64_t ceil_of(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

// Writes the nodes of the new loss where the old one was.
class LossWriter {
 public:
  LossWriter(GraphCopy& copy, const HeadAndLoss& found, std::int64_t chunks)
      : graph_(copy.result()), found_(found), chunks_(chunks) {
    const Node& head = copy.source().nodes[found.head];
    rows_ = copy.at(head.inputs[0]);
    weight_ = copy.at(head.inputs[1]);
    if (head.inputs.size() > 2) bias_ = copy.at(head.inputs[2]);
    targets_ = copy.at(copy.source().nodes[found.loss].inputs[1]);
    layer_ = head.layer;
  }

  TensorId checkpointed();
  TensorId kept();
  TensorId fused(ChunkKind kind);

 private:
  const Tensor& tensor(TensorId id) const { return graph_.tensors[id]; }
  std::vector<TensorId> add(const OperatorFamily& family, std::vector<TensorId> inputs,
                            Attributes attributes = {}) {
    return graph_.nodes[graph_.add_node(family, std::move(inputs), std::move(attributes), layer_)]
        .outputs;
  }
  TensorId add_one(std::string_view family, std::vector<TensorId> inputs,
                   Attributes attributes = {}) {
    return add(*find_family(family), std::move(inputs), std::move(attributes)).front();
  }
  std::vector<TensorId> chunks_of(TensorId whole, int axis) {
    const std::int64_t size = ceil_of(tensor(whole).shape[axis], chunks_);
    return add(*find_family("split"), {whole}, {{"size", size}, {"axis", std::int64_t{axis}}});
  }
  // The rows of all samples one below the other.
  TensorId flat(TensorId x) {
    if (tensor(x).shape.rank() == 2) return x;
    return add_one("reshape", {x}, {{"shape", std::vector<std::int64_t>{-1, tensor(x).shape[-1]}}});
  }
  TensorId mean_of(const std::vector<TensorId>& losses);

  Graph& graph_;
  const HeadAndLoss& found_;
  std::int64_t chunks_;
  TensorId rows_;
  TensorId weight_;
  TensorId bias_;
  TensorId targets_;
  LayerId layer_;
};

// The sum of the chunks' losses, divided by the number of targets.
TensorId LossWriter::mean_of(const std::vector<TensorId>& losses) {
  TensorId sum = losses.front();
  for (std::size_t i = 1; i < losses.size(); ++i)
    sum = add_one("add", {sum, losses[i]});
  return add_one("scale", {sum});
}

TensorId LossWriter::checkpointed() {
  const std::vector<TensorId> rows = chunks_of(flat(rows_), 0);
  const std::vector<TensorId> targets = chunks_of(targets_, 0);
  std::vector<TensorId> losses;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    std::vector<TensorId> inputs{rows[i], weight_, targets[i]};
    if (bias_.valid()) inputs.push_back(bias_);
    const Attributes attributes{{"loss_dtype", std::string(name_of(found_.loss_dtype))}};
    losses.push_back(add(checkpointed_cross_entropy_family(), inputs, attributes).front());
  }
  return mean_of(losses);
}

// The model returns a list of logits, cut along the sequence, that lives until the loss is there.
TensorId LossWriter::kept() {
  const bool has_sequence = tensor(rows_).shape.rank() == 3;
  const int axis = has_sequence ? 1 : 0;
  TensorId targets = targets_;
  if (has_sequence) {
    targets = add_one(
        "view", {targets},
        {{"shape", std::vector<std::int64_t>{tensor(rows_).shape[0], tensor(rows_).shape[1]}}});
  }
  std::vector<TensorId> logits;
  for (TensorId rows : chunks_of(rows_, axis)) {
    std::vector<TensorId> inputs{rows, weight_};
    if (bias_.valid()) inputs.push_back(bias_);
    logits.push_back(add_one("linear", inputs));
  }
  const std::vector<TensorId> labels = chunks_of(targets, axis);
  std::vector<TensorId> losses;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    TensorId scores = flat(logits[i]);
    if (tensor(scores).dtype != found_.loss_dtype) {
      scores = add_one("cast", {scores}, {{"dtype", std::string(name_of(found_.loss_dtype))}});
    }
    const TensorId log_probabilities =
        add_one("log_softmax", {scores}, {{"axis", std::int64_t{1}}});
    TensorId label = labels[i];
    if (has_sequence) {
      label = add_one("reshape", {label}, {{"shape", std::vector<std::int64_t>{-1}}});
    }
    losses.push_back(add_one("nll_loss", {log_probabilities, label}));
  }
  const TensorId loss = mean_of(losses);
  for (TensorId list_item : logits)
    graph_.locals.push_back({list_item, NodeId(graph_.nodes.size() - 1)});
  return loss;
}

TensorId LossWriter::fused(ChunkKind kind) {
  const TensorId rows = flat(rows_);
  std::vector<TensorId> inputs{rows, weight_, targets_};
  if (bias_.valid()) inputs.push_back(bias_);
  if (kind == ChunkKind::kCut) return add(cut_cross_entropy_family(), inputs).front();
  const Shape& shape = tensor(rows).shape;
  const bool liger = kind == ChunkKind::kLiger;
  const std::int64_t size =
      liger ? liger_rows(shape[0], tensor(weight_).shape[0], tensor(weight_).shape[1])
            : ceil_of(shape[0], chunks_);
  Attributes attributes{{"rows", size}};
  if (liger) attributes.set("adds_products", std::int64_t{1});
  return add(fused_cross_entropy_family(), inputs, attributes).front();
}

}  // namespace
}  // namespace replace_loss_detail

std::int64_t liger_rows(std::int64_t tokens, std::int64_t classes, std::int64_t width) {
  const std::int64_t inc = replace_loss_detail::ceil_of(classes, width);
  const std::int64_t rows = replace_loss_detail::ceil_of(tokens, inc);
  return static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(rows)));
}

Graph replace_loss(const Graph& graph, ChunkKind kind, std::int64_t chunks,
                   std::string_view policy) {
  const HeadAndLoss found = find_head_and_loss(graph, policy);
  return rewrite_graph(graph, [&](GraphCopy& copy, NodeId id) {
    const bool between =
        std::find(found.between.begin(), found.between.end(), id) != found.between.end();
    if (between || id == found.head) {
      // The model returns the rows, and the loss has the head.
      const TensorId rows = copy.at(graph.nodes[found.head].inputs.front());
      return copy.replace(id, std::vector<TensorId>{rows});
    }
    if (id != found.loss) {
      copy.keep(id);
      return;
    }
    replace_loss_detail::LossWriter writer(copy, found, chunks);
    TensorId loss;
    if (kind == ChunkKind::kCheckpointed) {
      loss = writer.checkpointed();
    } else if (kind == ChunkKind::kKept) {
      loss = writer.kept();
    } else {
      loss = writer.fused(kind);
    }
    copy.replace(id, std::vector<TensorId>{loss});
  });
}

}  // namespace tidemark
