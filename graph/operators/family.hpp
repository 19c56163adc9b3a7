// An operator family: everything that is known about one kind of autograd node, in one file each.
//
//   infer     shape rule; creates the outputs
//   forward   work of the forward kernel and its workspace
//   save      what autograd keeps for backward
//   backward  the kernels of the backward node, in the order in which PyTorch runs them
//
// Rules follow PyTorch; where versions differ, FrameworkRules says how (autodiff/framework.hpp).
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/autodiff/framework.hpp"
#include "graph/ir/graph.hpp"
#include "graph/ir/training_graph.hpp"
#include "graph/ir/work.hpp"

namespace tidemark {

// What a shape rule sees and does.
class Inference {
 public:
  Inference(Graph& graph, NodeId node) : graph_(graph), node_(node) {}

  [[nodiscard]] const Attributes& attributes() const { return graph_.nodes[node_].attributes; }
  [[nodiscard]] std::string_view family_name() const;
  [[nodiscard]] std::size_t input_count() const { return graph_.nodes[node_].inputs.size(); }
  [[nodiscard]] bool has_input(std::size_t index) const;
  [[nodiscard]] const Tensor& input(std::size_t index) const;  // fails when absent

  // A fresh contiguous output. It requires a gradient when any floating input does.
  void create(Shape shape, DType dtype) { create(shape, dtype, contiguous_strides(shape)); }
  // The same with its axes in another order in memory; `strides` are dense.
  void create(Shape shape, DType dtype, Strides strides);
  // An output that shares the storage of an input.
  void view(std::size_t input_index, Shape shape, Strides strides);
  // An output that is an input, changed in place.
  void in_place(std::size_t input_index);
  // A scalar output whose block has room for `elements`: losses resize what they reduced.
  void create_scalar_in(std::int64_t elements, DType dtype);
  // Throws UserError: operator, layer, the problem and the shapes of all inputs.
  [[noreturn]] void fail(const std::string& problem) const;
  void require(bool holds, const std::string& problem) const {
    if (!holds) fail(problem);
  }

 private:
  [[nodiscard]] bool any_input_requires_grad() const;
  Graph& graph_;
  NodeId node_;
};

// A node with its tensors, read only.
class NodeView {
 public:
  NodeView(const Graph& graph, NodeId node, const FrameworkRules& rules)
      : graph_(graph), node_(node), rules_(rules) {}

  [[nodiscard]] const Attributes& attributes() const { return graph_.nodes[node_].attributes; }
  [[nodiscard]] std::string_view family_name() const;
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
  // Compulsory traffic of an elementwise kernel: every input once, every output once.
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
};

// What autograd keeps of a node. Saving a parameter, buffer or input costs nothing.
class SavedSet {
 public:
  explicit SavedSet(const NodeView& node) : node_(node) {}
  void input(std::size_t index) { inputs_.push_back(index); }
  void output(std::size_t index = 0) { outputs_.push_back(index); }
  // A tensor that forward makes for backward only: a mask, statistics, indices, a clone.
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
  [[nodiscard]] std::span<const Extra> extras() const { return extras_; }

 private:
  const NodeView& node_;
  std::vector<std::size_t> inputs_;
  std::vector<std::size_t> outputs_;
  std::vector<Extra> extras_;
};

class GradientTape;  // autodiff/differentiate.cpp

// Emits the kernels of one backward node.
class BackwardBuilder {
 public:
  BackwardBuilder(GradientTape& tape, const NodeView& node) : tape_(tape), node_(node) {}

  [[nodiscard]] const NodeView& node() const { return node_; }
  [[nodiscard]] bool has_output_gradient(std::size_t index = 0) const;
  [[nodiscard]] Tensor output_gradient(std::size_t index = 0) const;
  [[nodiscard]] bool needs_gradient(std::size_t index) const { return node_.needs_gradient(index); }
  // A tensor that forward saved under this name (SavedSet::extra).
  [[nodiscard]] Tensor saved(std::string_view name) const;
  // A fresh contiguous tensor, created by the next kernel that lists it.
  [[nodiscard]] Tensor create(std::string_view name, const Shape& shape, DType dtype);
  [[nodiscard]] Tensor create_like(std::string_view name, const Tensor& like) {
    return create(name, like.shape, like.dtype);
  }

  struct Kernel {
    std::string_view name;
    std::vector<Tensor> reads;
    std::vector<Tensor> creates;
    std::vector<Tensor> mutates;
    Work work;
    Bytes workspace;
  };
  void launch(const Kernel& kernel);
  // An elementwise kernel whose work is reads + creates once.
  void launch_elementwise(std::string_view name, std::vector<Tensor> reads, const Tensor& result,
                          OperatorClass op_class = OperatorClass::kElementwise,
                          double flops_per_element = 1, Bytes workspace = {});
  // The copy of `tensor` in row-major order: the tensor itself when it already is.
  [[nodiscard]] Tensor contiguous(const Tensor& tensor);
  // `gradient` summed over broadcast axes to the shape of the input (torch's sum_to_size).
  [[nodiscard]] Tensor sum_to(const Tensor& gradient, const Shape& shape);
  void set_input_gradient(std::size_t index, const Tensor& gradient);

 private:
  GradientTape& tape_;
  const NodeView& node_;
};

struct OperatorFamily {
  std::string_view name;
  std::string_view summary;  // one line for `tidemark graph` and documentation
  void (*infer)(Inference&);
  ForwardKernel (*forward)(const NodeView&);
  void (*save)(SavedSet&);
  void (*backward)(BackwardBuilder&);
};

// Families by name, for readers of files. Null when unknown.
[[nodiscard]] const OperatorFamily* find_family(std::string_view name);
[[nodiscard]] std::span<const OperatorFamily* const> all_families();

// Shared pieces of shape rules.
[[nodiscard]] Shape broadcast_shapes(const Inference& inference, const Shape& a, const Shape& b);
[[nodiscard]] DType promote(DType a, DType b);  // of two floating tensors: the wider

}  // namespace tidemark
