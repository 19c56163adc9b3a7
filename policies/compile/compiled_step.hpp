// training.compile: torch.compile with the Inductor backend, of the model and its loss or of each
// block.
#pragma once

#include <string_view>

#include "policies/compile/partition.hpp"
#include "policies/plan/rewrite.hpp"

namespace tidemark {

// Saves what a minimum cut chooses (partition.hpp), computes the other values again in backward,
// and fuses kernels (fuse.hpp). Autotuning, CUDA graphs and the order that Inductor gives to
// kernels are not modelled: kernels keep the order of the eager step. Of blocks that are compiled
// one by one autograd may hold the gradient that enters a block until the block's backward returns;
// here it goes behind its last reader.
class CompiledStep final : public TrainingRewrite {
 public:
  explicit CompiledStep(CompileScope scope) : scope_(scope) {}
  [[nodiscard]] std::string_view name() const override { return "compile"; }
  [[nodiscard]] TrainingStage stage() const override { return TrainingStage::kCompile; }
  void apply(TrainingGraph& graph, const RewriteContext& context) const override;

 private:
  CompileScope scope_;
};

}  // namespace tidemark
