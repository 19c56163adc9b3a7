// The optimizer's part of a step: its state, and the operators that update the parameters.
//
// Persistent bytes per parameter of 4 (fp32) or 2 bytes (mixed: parameter and gradient of 2):
//   sgd 0, momentum 4, adam 8 + a step counter where the framework keeps one on the device;
//   the others in policies/optimizers;
//   mixed adam 4 + 4 + 4, so 16 with parameter and gradient (ZeRO, Rajbhandari et al. 2020).
#pragma once

#include <string_view>
#include <vector>

#include "graph/operators/framework.hpp"
#include "policies/optimizers/spec.hpp"
#include "policies/plan/rewrite.hpp"
#include "policies/rewrite/optimizer_states.hpp"
#include "policies/rewrite/precision.hpp"

namespace tidemark {

class Optimizer final : public TrainingRewrite {
 public:
  Optimizer(const OptimizerSpec& spec, const PrecisionRules& precision, const FrameworkRules& rules)
      : spec_(spec), precision_(precision), rules_(rules) {}
  [[nodiscard]] std::string_view name() const override { return "optimizer"; }
  [[nodiscard]] TrainingStage stage() const override { return TrainingStage::kOptimizer; }
  // Adds master weights (present from the start), moments and counters (created in optimizer_first,
  // as torch.optim does before its first update) and the operators of graph.optimizer.
  void apply(TrainingGraph& graph, const RewriteContext& context) const override;

 private:
  void check_rounding(const TrainingGraph& graph) const;
  void build(TrainingGraph& graph, const ParameterUses& uses,
             const std::vector<const UpdatedTensor*>& group) const;
  void build_in_backward(TrainingGraph& graph, const ParameterUses& uses) const;

  OptimizerSpec spec_;
  PrecisionRules precision_;
  FrameworkRules rules_;
};

}  // namespace tidemark
