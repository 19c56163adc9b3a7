// training.clip_grad_norm: torch.nn.utils.clip_grad_norm_ between backward and the optimizer.
#pragma once

#include "policies/plan/rewrite.hpp"

namespace tidemark {

class ClipGradients final : public TrainingRewrite {
 public:
  [[nodiscard]] std::string_view name() const override { return "clip_grad_norm"; }
  [[nodiscard]] TrainingStage stage() const override { return TrainingStage::kClip; }
  // Adds the norm of each gradient, the norm of all, and the gradients' scaling in place. Throws
  // UserError where parameters are updated in backward.
  void apply(TrainingGraph& graph, const RewriteContext& context) const override;
};

}  // namespace tidemark
