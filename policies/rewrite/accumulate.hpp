// Gradient accumulation: backward when .grad exists already.
//
//   .grad absent    weight_gradient creates .grad
//   .grad present   weight_gradient creates a fresh tensor; accumulate_gradient adds it to .grad
//
// That is so in micro-batches after the first, in all of them when zero_grad fills gradients with
// zeros instead of dropping them, and for parameters to whose gradients another turn of the step
// has added. With several micro-batches each loss is divided by their number.
#pragma once

#include <cstdint>

#include "graph/core/decoder.hpp"
#include "graph/operators/framework.hpp"
#include "policies/plan/rewrite.hpp"

namespace tidemark {

enum class ZeroGrad : std::uint8_t {
  kNone,  // set_to_none=True: gradients are dropped
  kZero,  // set_to_none=False: they stay and are overwritten
};

// Reads the key `zero_grad` of `training`: none | zero; when absent, what the framework does.
[[nodiscard]] ZeroGrad decode_zero_grad(const Decoder& training, const FrameworkRules& rules);

class Accumulate final : public TrainingRewrite {
 public:
  Accumulate(int micro_batches, ZeroGrad zero_grad)
      : micro_batches_(micro_batches), zero_grad_(zero_grad) {}
  [[nodiscard]] std::string_view name() const override { return "accumulate"; }
  [[nodiscard]] TrainingStage stage() const override { return TrainingStage::kAccumulate; }
  // Fills graph.backward_accumulate; operators that touch no gradient keep their ids there. Leaves
  // the graph as it is for one micro-batch whose gradients are dropped.
  void apply(TrainingGraph& graph, const RewriteContext& context) const override;

 private:
  int micro_batches_;
  ZeroGrad zero_grad_;
};

}  // namespace tidemark
