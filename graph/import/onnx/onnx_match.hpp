// Follows a chain of nodes from the one that is lowered, for operators of PyTorch that the exporter
// took apart. Nodes that have been followed are taken only when the whole chain fits.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "graph/import/onnx/onnx_lowering.hpp"

namespace tidemark {

class OnnxMatch {
 public:
  static constexpr std::size_t kEither = 2;

  explicit OnnxMatch(OnnxLowering& lowering) : l_(lowering) {}

  // Returns the result of the one node that reads `value`, if it is an `op` with `value` as operand
  // `operand` (kEither: any) and, if given, `other` as the other one. The node becomes part of the
  // match. Invalid otherwise.
  OnnxValueId next(std::string_view op, OnnxValueId value, std::size_t operand,
                   OnnxValueId other = {}) {
    const OnnxValueId result = peek(op, value, operand, other);
    if (result.valid()) take(result);
    return result;
  }
  // Returns what next() returns, without taking the node.
  [[nodiscard]] OnnxValueId peek(std::string_view op, OnnxValueId value, std::size_t operand,
                                 OnnxValueId other = {}) const {
    const OnnxNodeId reader = l_.uses().only_reader(value);
    if (!reader.valid() || !fits(reader, op, value, operand)) return {};
    const OnnxNode& node = l_.file().nodes[reader];
    if (other.valid() &&
        (node.inputs.size() < 2 || node.inputs[node.inputs[0] == value ? 1 : 0] != other)) {
      return {};
    }
    return node.outputs.front();
  }
  // Returns the result of a node `op` that reads `value`, among others, as operand `operand`.
  OnnxValueId reader(std::string_view op, OnnxValueId value, std::size_t operand) {
    for (const OnnxUse& use : l_.uses().readers[value]) {
      if (!fits(use.node, op, value, operand)) continue;
      take(l_.file().nodes[use.node].outputs.front());
      return l_.file().nodes[use.node].outputs.front();
    }
    return {};
  }
  // Whether an `op` makes `value`. The node becomes part of the match unless others read it, too.
  bool take_maker(OnnxValueId value, std::string_view op) {
    const OnnxNodeId maker = value.valid() ? l_.uses().producer[value] : OnnxNodeId();
    if (!maker.valid() || l_.file().nodes[maker].op != op) return false;
    if (l_.uses().only_reader(value).valid()) take(value);
    return true;
  }
  void take(OnnxValueId result) { taken_.push_back(l_.uses().producer[result]); }

  [[nodiscard]] const OnnxNode& node_of(OnnxValueId result) const {
    return l_.file().nodes[l_.uses().producer[result]];
  }
  // Returns a constant operand of the node that computes `result`.
  [[nodiscard]] std::optional<double> operand_number(OnnxValueId result,
                                                     std::size_t operand) const {
    const OnnxNode& node = node_of(result);
    return operand < node.inputs.size() ? l_.number(node.inputs[operand]) : std::nullopt;
  }
  // Returns the constant among the two operands of the node that computes `result`.
  [[nodiscard]] std::optional<double> number_beside(OnnxValueId result, OnnxValueId tensor) const {
    const OnnxNode& node = node_of(result);
    if (node.inputs.size() != 2) return std::nullopt;
    return l_.number(node.inputs[node.inputs[0] == tensor ? 1 : 0]);
  }

  // Ends the match of a chain that fits: its last value is `tensor`, and none of its nodes is
  // lowered by itself.
  void finish(OnnxValueId result, TensorId tensor) {
    for (OnnxNodeId id : taken_)
      l_.mark_done(id);
    l_.set_value(result, tensor);
  }

 private:
  [[nodiscard]] bool fits(OnnxNodeId id, std::string_view op, OnnxValueId value,
                          std::size_t operand) const {
    const OnnxNode& node = l_.file().nodes[id];
    if (node.op != op || node.outputs.empty() || !node.outputs.front().valid()) return false;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i] == value && (operand == kEither || operand == i)) return true;
    }
    return false;
  }

  OnnxLowering& l_;
  std::vector<OnnxNodeId> taken_;
};

}  // namespace tidemark
