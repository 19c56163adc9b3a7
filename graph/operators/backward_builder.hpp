// Emits the kernels of a backward node.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include "graph/ir/operator_family.hpp"
#include "graph/ir/tensor.hpp"
#include "graph/ir/work.hpp"
#include "graph/operators/node_view.hpp"

namespace tidemark {

// One kernel of a backward node.
struct BackwardKernel {
  std::string_view name;
  OperatorPart part = OperatorPart::kBackward;
  std::vector<Tensor> reads;
  std::vector<Tensor> creates;
  std::vector<Tensor> mutates;
  Work work;
  Bytes workspace;
  // Bytes of tensors that a formula of several kernels makes between them and drops.
  Bytes temporary;
  // The host reads a result: it waits until the device has done everything issued so far.
  bool blocks_host = false;
};

// The record of a differentiation (autodiff/gradient_tape.hpp), as far as families write to it.
class BackwardTape {
 public:
  virtual ~BackwardTape() = default;
  [[nodiscard]] virtual const std::optional<Tensor>& gradient_of(TensorId id) const = 0;
  // Returns a tensor that the forward of `node` saved under this name.
  [[nodiscard]] virtual Tensor saved(NodeId node, std::string_view name) const = 0;
  [[nodiscard]] virtual Tensor create(std::string_view name, const Shape& shape, DType dtype) = 0;
  // Makes a tensor that nothing keeps beyond its last reader.
  [[nodiscard]] virtual Tensor create_temporary(std::string_view name, const Shape& shape,
                                                DType dtype) = 0;
  // Makes a tensor that lives inside of one operator of PyTorch, across kernels of it.
  [[nodiscard]] virtual Tensor create_workspace(std::string_view name, const Shape& shape,
                                                DType dtype) = 0;
  virtual void launch(const BackwardKernel& kernel) = 0;
  virtual void release_incoming_gradient() = 0;
  virtual void release_saved() = 0;
  virtual void add_result(TensorId input, const Tensor& gradient) = 0;
  virtual void hand_on_results() = 0;
  virtual void keep_gradient(const Tensor& gradient) = 0;
};

// Emits the kernels of one backward node.
class BackwardBuilder {
 public:
  BackwardBuilder(BackwardTape& tape, const NodeView& node) : tape_(tape), node_(node) {}

  [[nodiscard]] const NodeView& node() const { return node_; }
  [[nodiscard]] bool has_output_gradient(std::size_t index = 0) const;
  [[nodiscard]] Tensor output_gradient(std::size_t index = 0) const;
  [[nodiscard]] bool needs_gradient(std::size_t index) const { return node_.needs_gradient(index); }
  // Returns a tensor that forward saved under this name (SavedSet::extra).
  [[nodiscard]] Tensor saved(std::string_view name) const;
  // Makes a fresh contiguous tensor, created by the next kernel that lists it.
  [[nodiscard]] Tensor create(std::string_view name, const Shape& shape, DType dtype);
  [[nodiscard]] Tensor create_like(std::string_view name, const Tensor& like) {
    return create(name, like.shape, like.dtype);
  }
  // Makes a tensor of forward that the node recomputes, which nothing keeps.
  [[nodiscard]] Tensor create_temporary(std::string_view name, const Shape& shape, DType dtype) {
    return tape_.create_temporary(name, shape, dtype);
  }

  using Kernel = BackwardKernel;
  void launch(const Kernel& kernel);
  // Launches an elementwise kernel that reads `reads` and creates one tensor, once each.
  void launch_elementwise(std::string_view name, std::vector<Tensor> reads, const Tensor& result,
                          OperatorClass op_class = OperatorClass::kElementwise,
                          double flops_per_element = 1, Bytes workspace = {}, Bytes temporary = {});
  // Returns a copy of `tensor` in row-major order: the tensor itself when it already is.
  [[nodiscard]] Tensor contiguous(const Tensor& tensor);
  // Likewise where the operator itself makes the copy for its kernels: a workspace.
  [[nodiscard]] Tensor contiguous_inside(const Tensor& tensor);
  // Sums `gradient` over broadcast axes to the shape of the input (torch's sum_to_size).
  [[nodiscard]] Tensor sum_to(const Tensor& gradient, const Shape& shape);
  void set_input_gradient(std::size_t index, const Tensor& gradient);
  // The gradient stays until the step ends: .grad of a leaf that is no parameter.
  void keep_gradient(const Tensor& gradient) { tape_.keep_gradient(gradient); }
  // A composite of several autograd nodes is past the one that received the incoming gradient, or
  // that saved tensors: they are released after the last kernel so far.
  void release_incoming_gradient() { tape_.release_incoming_gradient(); }
  void release_saved() { tape_.release_saved(); }
  // The gradients that come next pass a node of a view: those of leaves so far are added to .grad
  // before them.
  void hand_on_gradients() { tape_.hand_on_results(); }

 private:
  static constexpr std::string_view kCopy = "contiguous_gradient";

  // Launches the kernel that writes `tensor` into `copy`, which it returns.
  Tensor copied(const Tensor& tensor, const Tensor& copy);

  BackwardTape& tape_;
  const NodeView& node_;
};

}  // namespace tidemark
