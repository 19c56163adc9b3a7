// training.loss_scale: torch.amp.GradScaler, or a fixed factor.
//
//   forward        scaled_loss = loss * scale
//   backward       from the scaled loss
//   ahead of step  gradients / scale in place, whether all are finite; the host waits for that
//   behind it      a new scale
#pragma once

#include <optional>

#include "graph/core/decoder.hpp"
#include "policies/plan/rewrite.hpp"

namespace tidemark {

struct LossScaleOptions {
  bool dynamic = true;  // otherwise the scale is a number that nothing checks
  // Steps whose gradients overflow under the first scale, 65,536: their updates are skipped, and
  // the optimizer's state appears behind them.
  int skipped = 1;
};

// Reads the key `loss_scale` of `training`: none | static | dynamic, or {kind, skipped}. nullopt
// without a scale. Throws UserError.
[[nodiscard]] std::optional<LossScaleOptions> decode_loss_scale(const Decoder& training);

class LossScale final : public TrainingRewrite {
 public:
  explicit LossScale(const LossScaleOptions& options) : options_(options) {}
  [[nodiscard]] std::string_view name() const override { return "loss_scale"; }
  [[nodiscard]] TrainingStage stage() const override { return TrainingStage::kClip; }
  // Throws UserError for 16-bit parameters, whose gradients GradScaler refuses to unscale, and
  // where parameters are updated in backward.
  void apply(TrainingGraph& graph, const RewriteContext& context) const override;

 private:
  LossScaleOptions options_;
};

}  // namespace tidemark
