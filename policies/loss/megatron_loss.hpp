// Megatron-LM's cross-entropy on a rank that has the whole vocabulary: in place on fp32 logits, of
// which PyTorch's keeps the logarithms of the probabilities beside them. tensor_parallel makes the
// same loss of a vocabulary that it cuts.
#pragma once

#include <string_view>

#include "policies/plan/rewrite.hpp"

namespace tidemark {

class MegatronLoss final : public ForwardRewrite {
 public:
  // `asked`: by training.loss; otherwise models that do not predict words keep the loss they have.
  explicit MegatronLoss(bool asked) : asked_(asked) {}
  [[nodiscard]] std::string_view name() const override { return "megatron_loss"; }
  [[nodiscard]] ForwardStage stage() const override { return ForwardStage::kFuse; }
  // Throws UserError where it is asked for and the model has no such loss.
  [[nodiscard]] Graph apply(const Graph& graph, const RewriteContext& context) const override;

 private:
  bool asked_;
};

}  // namespace tidemark
