// Turns the nodes of an ONNX file, in their order, into nodes of the forward graph.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/import/onnx/onnx_modules.hpp"
#include "graph/import/onnx/onnx_options.hpp"
#include "graph/import/onnx/onnx_uses.hpp"
#include "graph/models/builder.hpp"
#include "graph/models/model_options.hpp"

namespace tidemark {

// Shapes of all values at the batch of the file; empty unless the batch changes.
using OnnxShapes = IdVector<OnnxValueId, std::optional<Shape>>;

// The state of a lowering, and the view of a node that the function for its operator gets.
class OnnxLowering {
 public:
  OnnxLowering(const OnnxModel& file, const OnnxUses& uses, const OnnxModules& modules,
               const OnnxRoles& roles, const OnnxOptions& onnx, const ModelOptions& options,
               const OnnxShapes& exported);

  // Lowers everything but the loss.
  void run();
  void add_loss();
  [[nodiscard]] Graph finish() { return builder_.finish(); }
  [[nodiscard]] OnnxShapes shapes() const;
  // Returns the batch that the inputs have now.
  [[nodiscard]] std::int64_t batch() const { return batch_; }
  // Returns the batch of the file, if the batch has been changed.
  [[nodiscard]] std::int64_t exported_batch() const;

  // --- The node that is lowered ---
  [[nodiscard]] const OnnxNode& node() const { return file_.nodes[current_]; }
  [[nodiscard]] OnnxNodeId id() const { return current_; }
  [[nodiscard]] ModelBuilder& builder() { return builder_; }
  [[nodiscard]] const ModelOptions& options() const { return options_; }
  [[nodiscard]] std::int64_t opset() const { return file_.opset; }
  [[nodiscard]] bool has(std::size_t operand) const { return node().has_input(operand); }
  // Returns an operand as a tensor; a constant is made by the forward pass, as module code makes
  // it.
  [[nodiscard]] TensorId operand(std::size_t index);
  [[nodiscard]] const Shape& shape_of_operand(std::size_t index) {
    return builder_.shape(operand(index));
  }
  // Returns an operand that is one number: a Python scalar in module code.
  [[nodiscard]] std::optional<double> scalar(std::size_t index);
  // Returns an operand that sets sizes or axes. Nothing when it is absent; fails when it is not
  // constant.
  [[nodiscard]] std::optional<std::vector<std::int64_t>> setting(std::size_t index);
  // Returns axes and other settings that older sets have as an attribute and newer ones as an
  // operand.
  [[nodiscard]] std::vector<std::int64_t> setting_or_attribute(std::size_t index,
                                                               std::string_view attribute);
  void set(TensorId result, std::size_t output = 0);
  // Adds the slices that take everything and that stand before the one of `axis` in x[:, :, i]; the
  // exporter drops them. The last of three or more axes is taken to be written x[..., i], which has
  // none.
  TensorId leading_slices(TensorId x, std::int64_t axis);
  // Adds a function of one tensor, in place where the node's module works in place.
  TensorId activation(std::string_view family, TensorId x, Attributes attributes = {});
  // Throws UserError at the node.
  [[noreturn]] void fail(const std::string& problem) const;
  // Throws unless the extents make a tensor that can be simulated.
  [[nodiscard]] Shape shape(const std::vector<std::int64_t>& extents) const;
  [[nodiscard]] DType model_type(DType file_type) const;
  // Adds a buffer of the module that the file does not hold; once, however often it is asked for.
  TensorId add_buffer(std::string_view name, const Shape& shape, DType dtype);

  // --- The nodes around it, for operators of PyTorch that the exporter took apart ---
  [[nodiscard]] const OnnxModel& file() const { return file_; }
  [[nodiscard]] const OnnxUses& uses() const { return uses_; }
  // Returns a value as a tensor or a constant; null when it is not (yet) one.
  [[nodiscard]] TensorId tensor(OnnxValueId value);
  [[nodiscard]] const OnnxConstant* constant(OnnxValueId value);
  [[nodiscard]] std::optional<double> number(OnnxValueId value);
  [[nodiscard]] bool is_parameter(OnnxValueId value) const;
  [[nodiscard]] bool is_initializer(OnnxValueId value) const;
  void set_value(OnnxValueId value, TensorId result) { tensors_[value] = result; }
  // Marks a node as part of an operator that has been lowered already.
  void mark_done(OnnxNodeId id) { done_[id] = 1; }
  // Zeros that a module makes once for all nodes of an operator in it: the initial states of a
  // stack of recurrent layers.
  [[nodiscard]] std::vector<TensorId>& zeros_of_module() {
    return zeros_[module_of(current_) + "/" + node().op];
  }
  // Marks a part of one tensor's split along its last axis, for MultiheadAttention.
  void mark_chunk(OnnxValueId value) { is_chunk_[value] = 1; }
  [[nodiscard]] bool is_chunk(OnnxValueId value) const { return is_chunk_[value] != 0; }
  [[nodiscard]] const OnnxShapes& exported_shapes() const { return exported_; }
  [[nodiscard]] std::string module_of(OnnxNodeId id) const;
  // Returns ReduceMean's axes, by whichever operand or attribute; empty for all.
  [[nodiscard]] std::vector<std::int64_t> axes_of(const OnnxNode& reduction);

 private:
  void add_roots();
  void add_input(const OnnxInput& input);
  std::int64_t extent_of(const OnnxInput& input, std::size_t axis);
  void lower(OnnxNodeId id);
  bool fold_node(OnnxNodeId id);
  bool evaluate(OnnxNodeId id);
  bool split_constant(const OnnxNode& node);
  [[nodiscard]] bool is_never_constant(OnnxValueId value) const;
  void lower_waiting(OnnxNodeId id);
  [[nodiscard]] bool waits(const OnnxNode& node) const;
  [[nodiscard]] bool is_computed_with(OnnxValueId value) const;
  [[nodiscard]] TensorId materialised(const OnnxConstant& constant);
  [[nodiscard]] TensorId expanded(OnnxValueId value, const OnnxConstant& known);
  [[nodiscard]] std::vector<std::int64_t> rebatched(std::vector<std::int64_t> dims) const;
  void enter_module(std::string_view path, int block);
  void check_operators() const;
  void check_open_axes();
  [[nodiscard]] std::vector<OnnxValueId> values_called(const std::string& name,
                                                       std::string_view key) const;
  void mark_detached();
  void name_shared();
  void check_detached() const;

  const OnnxModel& file_;
  const OnnxUses& uses_;
  const OnnxModules& modules_;
  const OnnxRoles& roles_;
  const OnnxOptions& onnx_;
  const ModelOptions& options_;
  const OnnxShapes& exported_;
  ModelBuilder builder_;
  InPlaceModules in_place_;
  std::map<std::string, std::vector<TensorId>, std::less<>> zeros_;
  std::map<std::string, TensorId, std::less<>> added_buffers_;
  DType own_type_ = DType::kFloat32;  // type of the file's parameters; becomes that of training
  OnnxNodeId current_;
  std::int64_t batch_ = 1;
  IdVector<OnnxValueId, TensorId> tensors_;
  IdVector<OnnxValueId, std::unique_ptr<OnnxConstant>> constants_;
  // Index into the file's initializers, -1 for other values.
  IdVector<OnnxValueId, int> initializer_;
  IdVector<OnnxValueId, char> never_constant_;
  IdVector<OnnxValueId, char> is_chunk_;
  IdVector<OnnxValueId, char> detaches_;  // whether its first reader detaches it
  IdVector<OnnxNodeId, char> done_;
  IdVector<OnnxNodeId, char> waiting_;  // views of parameters, made where they are used
  std::vector<std::pair<std::string, LayerId>> layers_;
  std::vector<std::string> open_axes_;
};

// The rule by which nodes of one ONNX operator are lowered.
struct OnnxOperator {
  std::string_view name;
  void (*lower)(OnnxLowering&);
};
// A pattern that begins with an operator of this name. Lowers the whole pattern, marks its nodes
// done and returns true, or does nothing.
struct OnnxPattern {
  std::string_view first;
  bool (*lower)(OnnxLowering&);
};

[[nodiscard]] const OnnxOperator* find_onnx_operator(std::string_view name);
[[nodiscard]] std::span<const OnnxPattern> onnx_patterns();

// The operators and patterns of each file of lower/.
[[nodiscard]] std::span<const OnnxOperator> onnx_elementwise_operators();
[[nodiscard]] std::span<const OnnxOperator> onnx_window_operators();
[[nodiscard]] std::span<const OnnxPattern> onnx_window_patterns();
[[nodiscard]] std::span<const OnnxOperator> onnx_product_operators();
[[nodiscard]] std::span<const OnnxOperator> onnx_einsum_operators();
[[nodiscard]] std::span<const OnnxOperator> onnx_layout_operators();
[[nodiscard]] std::span<const OnnxOperator> onnx_index_operators();
[[nodiscard]] std::span<const OnnxOperator> onnx_reduction_operators();
[[nodiscard]] std::span<const OnnxOperator> onnx_normalization_operators();
[[nodiscard]] std::span<const OnnxOperator> onnx_recurrent_operators();
[[nodiscard]] std::span<const OnnxOperator> onnx_random_operators();
[[nodiscard]] std::span<const OnnxPattern> onnx_normalization_patterns();
[[nodiscard]] std::span<const OnnxPattern> onnx_activation_patterns();
[[nodiscard]] std::span<const OnnxPattern> onnx_layout_patterns();
[[nodiscard]] std::span<const OnnxPattern> onnx_loss_patterns();
[[nodiscard]] std::span<const OnnxPattern> onnx_index_patterns();
[[nodiscard]] std::span<const OnnxPattern> onnx_cell_patterns();
[[nodiscard]] std::span<const OnnxPattern> onnx_function_patterns();
[[nodiscard]] std::span<const OnnxPattern> onnx_parametrization_patterns();

}  // namespace tidemark
