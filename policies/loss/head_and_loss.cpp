#include "policies/loss/head_and_loss.hpp"

#include <algorithm>
#include <string>

#include <fmt/format.h>

#include "graph/core/errors.hpp"
#include "graph/operators/adapters/quantised_linear.hpp"
#include "graph/operators/communication/vocabulary.hpp"
#include "graph/operators/known_families.hpp"
#include "graph/operators/losses/chunked_losses.hpp"
#include "graph/operators/pointwise/fake_quantise.hpp"
#include "graph/rewrite/maker_of.hpp"

namespace tidemark {
namespace head_and_loss_detail {
namespace {

int readers_of(const Graph& graph, TensorId tensor) {
  int readers = 0;
  for (const Node& node : graph.nodes)
    readers += static_cast<int>(std::count(node.inputs.begin(), node.inputs.end(), tensor));
  readers +=
      static_cast<int>(std::count(graph.other_outputs.begin(), graph.other_outputs.end(), tensor));
  return readers;
}

bool is_family(const Graph& graph, NodeId id, const OperatorFamily& family) {
  return id.valid() && graph.nodes[id].family == &family;
}

// Returns the product whose result these logits are, behind the sums and casts of its adapter where
// `form` allows for one; invalid if there is none.
NodeId head_of(const Graph& graph, NodeId maker, HeadForm form) {
  if (is_family(graph, maker, linear_family())) return maker;
  if (form == HeadForm::kPlain) return {};
  while (is_family(graph, maker, add_family()) || is_family(graph, maker, cast_family()) ||
         is_family(graph, maker, clone_family())) {
    maker = maker_of(graph, graph.nodes[maker].inputs.front());
  }
  const bool found = is_family(graph, maker, linear_family()) ||
                     is_family(graph, maker, quantised_linear_family());
  return found ? maker : NodeId();
}

// Returns the nodes between the head's rows and the logits that `last` makes, in their order: those
// that come from the rows and lead to the logits.
std::vector<NodeId> nodes_from_rows(const Graph& graph, NodeId head, NodeId last) {
  std::vector<char> leads(graph.tensors.size(), 0);
  std::vector<char> comes(graph.tensors.size(), 0);
  const auto marked = [](const std::vector<char>& marks, const std::vector<TensorId>& tensors) {
    return std::any_of(tensors.begin(), tensors.end(), [&](TensorId tensor) {
      return tensor.valid() && marks[tensor.index()] != 0;
    });
  };
  const auto mark = [](std::vector<char>& marks, const std::vector<TensorId>& tensors) {
    for (const TensorId tensor : tensors) {
      if (tensor.valid()) marks[tensor.index()] = 1;
    }
  };
  mark(leads, graph.nodes[last].outputs);
  for (std::size_t i = last.index() + 1; i-- > 0;) {
    const Node& node = graph.nodes[NodeId(i)];
    if (marked(leads, node.outputs)) mark(leads, node.inputs);
  }
  comes[graph.nodes[head].inputs.front().index()] = 1;
  std::vector<NodeId> nodes;
  for (std::size_t i = 0; i <= last.index(); ++i) {
    const Node& node = graph.nodes[NodeId(i)];
    if (!marked(comes, node.inputs) || !marked(leads, node.outputs)) continue;
    mark(comes, node.outputs);
    nodes.emplace_back(i);
  }
  return nodes;
}

// Returns a node of these whose result something else reads, too; invalid if there is none.
NodeId read_elsewhere(const Graph& graph, const std::vector<NodeId>& nodes) {
  for (const NodeId id : nodes) {
    for (const TensorId made : graph.nodes[id].outputs) {
      std::ptrdiff_t inside = 0;
      for (const NodeId reader : nodes) {
        const std::vector<TensorId>& inputs = graph.nodes[reader].inputs;
        inside += std::count(inputs.begin(), inputs.end(), made);
      }
      if (id != nodes.back() && readers_of(graph, made) > inside) return id;
    }
  }
  return {};
}

[[noreturn]] void fail(std::string_view policy, const std::string& problem) {
  throw UserError({}, "policies." + std::string(policy), problem);
}

// Explains what the model ends with instead of a head and its cross-entropy.
[[noreturn]] void fail_at(const Graph& graph, std::string_view policy, NodeId found) {
  if (found.valid() && graph.nodes[found].family == &vocabulary_loss_family()) {
    fail(policy, fmt::format("tensor_parallel divides the vocabulary, and {} takes a loss whose "
                             "classes are on one GPU; leave one of the two out",
                             policy));
  }
  if (found.valid() && graph.nodes[found].family == &fake_quantise_family()) {
    fail(policy, fmt::format("qat rounds the logits, so that {} would need all of them; leave the "
                             "head out by qat's layers or except",
                             policy));
  }
  const auto makes = [&](const OperatorFamily& family) {
    return std::any_of(graph.nodes.begin(), graph.nodes.end(),
                       [&](const Node& node) { return node.family == &family; });
  };
  const auto losses = std::count_if(graph.nodes.begin(), graph.nodes.end(), [](const Node& node) {
    return node.family == &nll_loss_family();
  });
  const bool teaches =
      std::any_of(graph.storages.begin(), graph.storages.end(),
                  [](const Storage& storage) { return storage.role == Role::kTeacher; });
  if (teaches) {
    fail(policy,
         fmt::format("distill adds a loss that reads what the model makes, and {} leaves no "
                     "logits to read; leave one of the two out",
                     policy));
  }
  if (losses > 1 || makes(checkpointed_cross_entropy_family()) ||
      makes(fused_cross_entropy_family()) || makes(cut_cross_entropy_family())) {
    fail(policy,
         "another policy takes head and loss together already: of chunked_loss and fused_loss, "
         "list one");
  }
  fail(policy,
       fmt::format("the model needs a linear layer whose logits go into cross-entropy, but {} of "
                   "'{}' is made by {}",
                   graph.loss.valid() ? "the loss" : "no loss", graph.name,
                   found.valid() ? graph.describe(found) : "nothing; choose a training.loss"));
}

}  // namespace
}  // namespace head_and_loss_detail

HeadAndLoss find_head_and_loss(const Graph& graph, std::string_view policy, HeadForm form) {
  using head_and_loss_detail::fail;
  using head_and_loss_detail::fail_at;
  using head_and_loss_detail::head_of;
  using head_and_loss_detail::is_family;
  using head_and_loss_detail::nodes_from_rows;
  using head_and_loss_detail::read_elsewhere;
  using head_and_loss_detail::readers_of;
  HeadAndLoss found;
  found.loss = graph.loss.valid() ? maker_of(graph, graph.loss) : NodeId();
  if (!is_family(graph, found.loss, nll_loss_family())) fail_at(graph, policy, found.loss);
  NodeId at = found.loss;
  bool from_scores = false;
  while (true) {
    const TensorId input = graph.nodes[at].inputs.front();
    const NodeId maker = maker_of(graph, input);
    const bool passes =
        is_family(graph, maker, view_family()) || is_family(graph, maker, reshape_family()) ||
        is_family(graph, maker, cast_family()) || is_family(graph, maker, log_softmax_family());
    const NodeId head = passes ? NodeId() : head_of(graph, maker, form);
    const bool is_head = head.valid();
    if (!passes && !is_head) fail_at(graph, policy, maker.valid() ? maker : at);
    if (readers_of(graph, input) > 1) {
      fail(policy, fmt::format("the result of {} is read by more than the loss, so that all logits "
                               "are needed; leave {} out",
                               graph.describe(maker), policy));
    }
    if (is_head) {
      found.head = head;
      found.from_rows =
          head == maker ? std::vector<NodeId>{head} : nodes_from_rows(graph, head, maker);
      const NodeId shared = read_elsewhere(graph, found.from_rows);
      if (shared.valid()) {
        fail(policy, fmt::format("the result of {} is read by more than the head, so that it is "
                                 "needed whole; leave {} out",
                                 graph.describe(shared), policy));
      }
      break;
    }
    if (is_family(graph, maker, log_softmax_family())) {
      found.loss_dtype = graph.tensors[input].dtype;
      from_scores = true;
    }
    found.between.insert(found.between.begin(), maker);
    at = maker;
  }
  if (!from_scores) {
    fail(policy, fmt::format("computes cross-entropy, and the loss takes the result of {} as "
                             "log-probabilities: write training.loss: cross_entropy, or leave {} "
                             "out",
                             graph.describe(found.head), policy));
  }
  if (graph.nodes[found.head].attributes.flag("transposed_weight")) {
    fail_at(graph, policy, found.head);
  }
  return found;
}

}  // namespace tidemark
