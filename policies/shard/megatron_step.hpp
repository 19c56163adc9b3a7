// Megatron-LM's distributed optimizer (core/distributed/param_and_grad_buffer.py): every rank keeps
// all parameters and all gradients, each in one buffer, and updates its part of them.
//
//   backward   weight gradients are added straight into the gradient buffer; the last micro-batch
//              reduces it in place, bucket by bucket with overlap_grad_reduce
//   step       the rank's part; then the parameter buffer is gathered in place
//
// Parameters lie in the reverse order of registration, each from a multiple of 64 elements on; a
// bucket ends at a multiple of lcm(ranks, 128).
//
// Without the distributed optimizer there is the gradient buffer alone, without padding: buckets
// are all-reduced in place, and every rank updates all parameters.
#pragma once

#include <cstdint>
#include <optional>

#include "graph/core/decoder.hpp"
#include "graph/ir/training_graph.hpp"
#include "policies/plan/rewrite.hpp"

namespace tidemark {

struct MegatronOptions {
  bool shares_states = true;  // the distributed optimizer
  bool overlap_grad_reduce = false;
  // Parameters are gathered bucket by bucket while the next forward runs, in its order; otherwise
  // the step ends with them.
  bool overlap_param_gather = false;
  // Products add weight gradients to the buffer themselves, without a tensor of their own.
  bool gradient_accumulation_fusion = true;
  std::optional<Elements> bucket;  // max(40e6, 1e6 x ranks) unless given
};

// Reads overlap_grad_reduce, gradient_accumulation_fusion and bucket.
[[nodiscard]] MegatronOptions decode_megatron_options(const Decoder& d);

// Puts gradients into the buffer and what a rank updates beside it. Leaves the graph as it is on
// one GPU.
void share_optimizer(TrainingGraph& graph, const MegatronOptions& options,
                     const RewriteContext& context);

// Data parallelism of Megatron-LM without the distributed optimizer.
class MegatronDataParallel final : public TrainingRewrite {
 public:
  explicit MegatronDataParallel(const MegatronOptions& options = {.shares_states = false})
      : options_(options) {}
  [[nodiscard]] std::string_view name() const override { return "megatron_data_parallel"; }
  [[nodiscard]] bool acts_in_evaluation(bool /*computes_loss*/) const override { return false; }
  [[nodiscard]] std::optional<TrainingSystem> system() const override {
    return TrainingSystem::kMegatron;
  }
  [[nodiscard]] TrainingStage stage() const override { return TrainingStage::kPartition; }
  [[nodiscard]] bool reduces_gradients() const override { return true; }
  void apply(TrainingGraph& graph, const RewriteContext& context) const override {
    share_optimizer(graph, options_, context);
  }

 private:
  MegatronOptions options_;
};

}  // namespace tidemark
