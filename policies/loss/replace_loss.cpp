#include "policies/loss/replace_loss.hpp"

#include <algorithm>
#include <bit>
#include <map>
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
      : copy_(copy), graph_(copy.result()), found_(found), chunks_(chunks) {
    const Node& head = copy.source().nodes[found.head];
    rows_ = copy.at(head.inputs[0]);
    weight_ = copy.at(head.inputs[1]);
    if (head.inputs.size() > 2) bias_ = copy.at(head.inputs[2]);
    targets_ = copy.at(copy.source().nodes[found.loss].inputs[1]);
    layer_ = head.layer;
  }

  TensorId checkpointed();
  TensorId kept(bool converts);
  std::vector<TensorId> converted(const std::vector<TensorId>& logits);
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
  TensorId head_of(TensorId rows);
  TensorId mean_of(const std::vector<TensorId>& losses);

  const GraphCopy& copy_;
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

// Returns the logits of a chunk of rows: the nodes of the head again, on these.
TensorId LossWriter::head_of(TensorId rows) {
  const Graph& source = copy_.source();
  std::map<TensorId, TensorId> made{{source.nodes[found_.head].inputs.front(), rows}};
  TensorId last;
  for (const NodeId id : found_.from_rows) {
    const Node& node = source.nodes[id];
    std::vector<TensorId> inputs;
    for (TensorId in : node.inputs) {
      const auto own = made.find(in);
      inputs.push_back(own != made.end() ? own->second : copy_.at(in));
    }
    const NodeId chunk =
        graph_.add_node(*node.family, std::move(inputs), node.attributes, node.layer);
    for (std::size_t i = 0; i < node.outputs.size(); ++i)
      made[node.outputs[i]] = graph_.nodes[chunk].outputs[i];
    last = graph_.output(chunk);
  }
  return last;
}

// Converts the model's outputs to fp32, while its own list still names them.
std::vector<TensorId> LossWriter::converted(const std::vector<TensorId>& logits) {
  if (tensor(logits.front()).dtype == DType::kFloat32) return logits;
  std::vector<TensorId> outputs;
  for (TensorId chunk : logits)
    outputs.push_back(add_one("cast", {chunk}, {{"dtype", std::string(name_of(DType::kFloat32))}}));
  for (TensorId chunk : logits)
    graph_.locals.push_back({chunk, NodeId(graph_.nodes.size() - 1)});
  return outputs;
}

// The model returns a list of logits, cut along the sequence, that lives until the loss is there.
TensorId LossWriter::kept(bool converts) {
  const bool has_sequence = tensor(rows_).shape.rank() == 3;
  const int axis = has_sequence ? 1 : 0;
  TensorId targets = targets_;
  if (has_sequence) {
    targets = add_one(
        "view", {targets},
        {{"shape", std::vector<std::int64_t>{tensor(rows_).shape[0], tensor(rows_).shape[1]}}});
  }
  std::vector<TensorId> logits;
  for (TensorId rows : chunks_of(rows_, axis))
    logits.push_back(head_of(rows));
  if (converts) logits = converted(logits);
  const std::vector<TensorId> labels = chunks_of(targets, axis);
  std::vector<TensorId> losses;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    TensorId scores = flat(logits[i]);
    if (!converts && tensor(scores).dtype != found_.loss_dtype) {
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
    graph_.locals.push_back(
        {.tensor = list_item, .until = NodeId(graph_.nodes.size() - 1), .returned = true});
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
  const bool keeps = kind == ChunkKind::kKept || kind == ChunkKind::kKeptFp32;
  const HeadAndLoss found =
      find_head_and_loss(graph, policy, keeps ? HeadForm::kAdapted : HeadForm::kPlain);
  const auto contains = [](const std::vector<NodeId>& nodes, NodeId id) {
    return std::find(nodes.begin(), nodes.end(), id) != nodes.end();
  };
  Graph replaced = rewrite_graph(graph, [&](GraphCopy& copy, NodeId id) {
    if (contains(found.between, id) || contains(found.from_rows, id)) {
      // The model returns the rows, and the loss has the head.
      const TensorId rows = copy.at(graph.nodes[found.head].inputs.front());
      return copy.replace(id, std::vector<TensorId>(graph.nodes[id].outputs.size(), rows));
    }
    if (id != found.loss) {
      copy.keep(id);
      return;
    }
    replace_loss_detail::LossWriter writer(copy, found, chunks);
    TensorId loss;
    if (kind == ChunkKind::kCheckpointed) {
      loss = writer.checkpointed();
    } else if (keeps) {
      loss = writer.kept(kind == ChunkKind::kKeptFp32);
    } else {
      loss = writer.fused(kind);
    }
    copy.replace(id, std::vector<TensorId>{loss});
  });
  if (keeps) replaced.logits = TensorId();  // the model returns the list
  return replaced;
}

}  // namespace tidemark
