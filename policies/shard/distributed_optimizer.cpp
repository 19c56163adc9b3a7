// The policy `distributed_optimizer`: Megatron-LM's.
#include <string_view>

#include "policies/shard/entries.hpp"
#include "policies/shard/gathered.hpp"
#include "policies/shard/megatron_step.hpp"

namespace tidemark {
namespace distributed_optimizer_detail {
namespace {

class DistributedOptimizer final : public TrainingRewrite {
 public:
  static std::unique_ptr<TrainingRewrite> decode(const Decoder& d) {
    auto policy = std::make_unique<DistributedOptimizer>();
    MegatronOptions& options = policy->options_;
    options.overlap_grad_reduce = d.optional<bool>("overlap_grad_reduce", false);
    // Either way the gather runs behind the update; the next forward waits for it.
    const bool overlaps_gather = d.optional<bool>("overlap_param_gather", false);
    if (overlaps_gather && !options.overlap_grad_reduce)
      d.fail_at("overlap_param_gather", "needs overlap_grad_reduce: true, as in Megatron");
    options.gradient_accumulation_fusion = d.optional<bool>("gradient_accumulation_fusion", true);
    options.bucket = d.maybe<std::int64_t>("bucket", at_least(1));
    if (options.bucket && !options.overlap_grad_reduce)
      d.fail_at("bucket", "without overlap_grad_reduce: true there is one bucket, as in Megatron");
    d.finish();
    return policy;
  }
  [[nodiscard]] std::string_view name() const override { return "distributed_optimizer"; }
  [[nodiscard]] TrainingStage stage() const override { return TrainingStage::kPartition; }
  [[nodiscard]] bool reduces_gradients() const override { return true; }
  void apply(TrainingGraph& graph, const RewriteContext& context) const override {
    share_optimizer(graph, options_, context);
  }

  void plan_movement(const PolicyContext& context, ResidencyPlan& plan) const override {
    count_shards(context, plan);
  }

 private:
  MegatronOptions options_;
};

}  // namespace
}  // namespace distributed_optimizer_detail

const PolicyEntry& distributed_optimizer_entry() {
  static constexpr PolicyEntry kEntry{
      .name = "distributed_optimizer",
      .kind = "training rewrite",
      .summary =
          "every rank keeps all parameters and a full buffer of gradients, and the optimizer "
          "state of its part of them",
      .source = "Megatron-LM, core/optimizer/distrib_optimizer.py",
      .decode = [](const Decoder& d, const RewriteContext& /*context*/) -> AnyPolicy {
        return distributed_optimizer_detail::DistributedOptimizer::decode(d);
      },
      .mesh = [](const Decoder& /*d*/, MeshRequest& request) { request.shards = true; }};
  return kEntry;
}

}  // namespace tidemark
