// Weight gradients of a layer that is cut by its output features, behind the reduction of its input
// gradient over tensor ranks: the two run at the same time.
//
//   before   input_gradient  weight_gradient  reduce_scatter | next layer's backward
//   after    input_gradient  reduce_scatter   weight_gradient | next layer's backward
#pragma once

#include <string_view>

#include "policies/plan/rewrite.hpp"

namespace tidemark {

// Megatron-LM's LinearWithGradAccumulationAndAsyncCommunication
// (megatron/core/tensor_parallel/layers.py): the all-reduce, or with sequence parallelism the
// reduce-scatter, is issued before the product of the weight gradient.
class LateWeightGradients final : public TrainingRewrite {
 public:
  [[nodiscard]] std::string_view name() const override { return "late_weight_gradients"; }
  [[nodiscard]] TrainingStage stage() const override { return TrainingStage::kCompile; }
  // Leaves the graph as it is where there is one tensor rank, and in other systems than Megatron.
  void apply(TrainingGraph& graph, const RewriteContext& context) const override;
};

}  // namespace tidemark
