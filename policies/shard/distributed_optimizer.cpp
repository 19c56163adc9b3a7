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
    options = decode_megatron_options(d);
    options.overlap_param_gather = d.optional<bool>("overlap_param_gather", false);
    if (options.overlap_param_gather && !options.overlap_grad_reduce)
      d.fail_at("overlap_param_gather", "needs overlap_grad_reduce: true, as in Megatron");
    d.finish();
    return policy;
  }
  [[nodiscard]] std::string_view name() const override { return "distributed_optimizer"; }
  [[nodiscard]] bool acts_in_evaluation(bool /*computes_loss*/) const override { return false; }
  [[nodiscard]] std::optional<TrainingSystem> system() const override {
    return TrainingSystem::kMegatron;
  }
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

const PolicyEntry& megatron_data_parallel_entry() {
  static constexpr PolicyEntry kEntry{
      .name = "megatron_data_parallel",
      .kind = "training rewrite",
      .summary =
          "every rank has the whole model and one buffer of all gradients, to which products add "
          "and which is all-reduced in place; what several ranks with gradient_dtype fp32 do",
      .source = "Megatron-LM, core/distributed/distributed_data_parallel.py",
      .decode = [](const Decoder& d, const RewriteContext& /*context*/) -> AnyPolicy {
        MegatronOptions options = decode_megatron_options(d);
        options.shares_states = false;
        d.finish();
        return std::make_unique<MegatronDataParallel>(options);
      }};
  return kEntry;
}

}  // namespace tidemark
