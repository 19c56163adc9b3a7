// The view of a node that its family gets, and the family's answers: the forward kernel and the
// tensors that autograd keeps.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "graph/ir/graph.hpp"
#include "graph/ir/work.hpp"
#include "graph/operators/framework.hpp"

namespace tidemark {

// A node with its tensors, read only.
class NodeView {
 public:
  NodeView(const Graph& graph, NodeId node, const FrameworkRules& rules)
      : graph_(graph), node_(node), rules_(rules) {}

  [[nodiscard]] const Attributes& attributes() const { return graph_.nodes[node_].attributes; }
  [[nodiscard]] std::string_view family_name() const;
  [[nodiscard]] int family_variant() const;
  [[nodiscard]] const FrameworkRules& rules() const { return rules_; }
  [[nodiscard]] std::size_t input_count() const { return graph_.nodes[node_].inputs.size(); }
  [[nodiscard]] bool has_input(std::size_t index) const;
  [[nodiscard]] const Tensor& input(std::size_t index) const {
    return graph_.tensors[graph_.nodes[node_].inputs[index]];
  }
  [[nodiscard]] const Tensor& output(std::size_t index = 0) const {
    return graph_.tensors[graph_.nodes[node_].outputs[index]];
  }
  // Whether backward must produce the gradient of an input.
  [[nodiscard]] bool needs_gradient(std::size_t index) const {
    return has_input(index) && input(index).requires_grad;
  }
  [[nodiscard]] bool is_in_place() const { return graph_.nodes[node_].in_place; }
  // Returns the compulsory traffic of an elementwise kernel: every input once, every output once.
  [[nodiscard]] Work elementwise_work(OperatorClass op_class, double flops_per_element) const;
  [[nodiscard]] const Graph& graph() const { return graph_; }
  [[nodiscard]] NodeId id() const { return node_; }

 private:
  const Graph& graph_;
  NodeId node_;
  const FrameworkRules& rules_;
};

// The forward kernel of a node.
struct ForwardKernel {
  Work work;
  Bytes workspace;  // temporaries that live inside the kernel only
  Bytes temporary;  // bytes of a tensor that the operator makes and drops outside its kernel
  bool blocks_host = false;  // the host reads a result before it goes on
};

// Collects the tensors that autograd keeps of a node. Saving a parameter, buffer or input costs
// nothing.
class SavedSet {
 public:
  explicit SavedSet(const NodeView& node) : node_(node) {}
  void input(std::size_t index) { inputs_.push_back(index); }
  void output(std::size_t index = 0) { outputs_.push_back(index); }
  // Keeps an input in an attribute of a Python function's context, which stays until the graph
  // goes, with the variable of the loss: longer than what autograd saves, which each node releases.
  void context(std::size_t index) {
    inputs_.push_back(index);
    contexts_.push_back(index);
  }
  // Adds a tensor that forward makes for backward only: a mask, statistics, indices, a clone.
  void extra(std::string_view name, Shape shape, DType dtype) {
    extras_.push_back({name, shape, dtype});
  }
  [[nodiscard]] const NodeView& node() const { return node_; }

  struct Extra {
    std::string_view name;
    Shape shape;
    DType dtype;
  };
  [[nodiscard]] std::span<const std::size_t> inputs() const { return inputs_; }
  [[nodiscard]] std::span<const std::size_t> outputs() const { return outputs_; }
  [[nodiscard]] std::span<const std::size_t> contexts() const { return contexts_; }
  [[nodiscard]] std::span<const Extra> extras() const { return extras_; }

 private:
  const NodeView& node_;
  std::vector<std::size_t> inputs_;
  std::vector<std::size_t> outputs_;
  std::vector<std::size_t> contexts_;
  std::vector<Extra> extras_;
};

}  // namespace tidemark
