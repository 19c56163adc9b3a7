// The sum over tensor ranks of gradients of which each has a part: those of norms and of biases
// that are added to a part of the tokens, and of keys that several ranks share.
//
//   compute  ... backward of the last micro-batch [ flatten ]              [ copy back ]
//   tensor                                                 [ all_reduce ]
#pragma once

#include <string_view>

#include "policies/plan/rewrite.hpp"

namespace tidemark {

// Megatron-LM's _allreduce_layernorm_grads, after the gradients of data ranks have been reduced.
class TensorGradients final : public TrainingRewrite {
 public:
  [[nodiscard]] std::string_view name() const override { return "tensor_gradients"; }
  [[nodiscard]] TrainingStage stage() const override { return TrainingStage::kPartition; }
  // Leaves the graph as it is where there is one tensor rank.
  void apply(TrainingGraph& graph, const RewriteContext& context) const override;
};

}  // namespace tidemark
