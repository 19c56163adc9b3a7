// Kernels that the losses in chunks have in common: those of a head on some rows.
#pragma once

#include <fmt/format.h>

#include "graph/operators/forward_builder.hpp"
#include "graph/operators/kernels.hpp"

namespace tidemark {

// Inputs of the nodes.
inline constexpr std::size_t kLossRows = 0;     // [n, width]
inline constexpr std::size_t kLossWeight = 1;   // [classes, width]
inline constexpr std::size_t kLossTargets = 2;  // int64 [n]
inline constexpr std::size_t kLossBias = 3;     // [classes], optional

// Sizes of a head on `rows` rows.
struct HeadExtent {
  std::int64_t rows = 0;
  std::int64_t classes = 0;
  std::int64_t width = 0;
};

[[nodiscard]] inline HeadExtent head_extent(const NodeView& node) {
  return {node.input(kLossRows).shape[0], node.input(kLossWeight).shape[0],
          node.input(kLossWeight).shape[1]};
}

// Checks the shapes and makes the loss, a scalar of `dtype`.
inline void infer_head_loss(Inference& inference, DType dtype) {
  const Tensor& rows = inference.input(kLossRows);
  const Tensor& weight = inference.input(kLossWeight);
  const Tensor& targets = inference.input(kLossTargets);
  inference.require(
      rows.shape.rank() == 2 && weight.shape.rank() == 2 && rows.shape[1] == weight.shape[1],
      "needs rows [n, width] and a weight [classes, width]");
  inference.require(targets.shape == Shape{rows.shape[0]} && targets.dtype == DType::kInt64,
                    [&] { return fmt::format("needs {} int64 targets", rows.shape[0]); });
  inference.create({}, dtype);
}

// logits = rows weight^T + bias
[[nodiscard]] inline Work head_product(const NodeView& node, std::int64_t rows) {
  const HeadExtent extent = head_extent(node);
  return matmul_work(node.input(kLossRows).dtype, rows, extent.classes, extent.width, 1);
}

// The tensors that a head's product reads.
[[nodiscard]] inline std::vector<Tensor> head_operands(const NodeView& node) {
  std::vector<Tensor> operands{node.input(kLossRows), node.input(kLossWeight)};
  if (node.has_input(kLossBias)) operands.push_back(node.input(kLossBias));
  return operands;
}

// gradient of the rows = gradient of the logits x weight
[[nodiscard]] inline Work row_gradient_product(const NodeView& node, std::int64_t rows) {
  const HeadExtent extent = head_extent(node);
  return matmul_work(node.input(kLossRows).dtype, rows, extent.width, extent.classes, 1);
}

// gradient of the weight = gradient of the logits^T x rows
[[nodiscard]] inline Work weight_gradient_product(const NodeView& node, std::int64_t rows) {
  const HeadExtent extent = head_extent(node);
  return matmul_work(node.input(kLossRows).dtype, extent.classes, extent.width, rows, 1);
}

}  // namespace tidemark
