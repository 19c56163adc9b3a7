// The policy `zero`: DeepSpeed's stages 1, 2 and 3.
#include <string_view>
#include <utility>

#include "policies/shard/entries.hpp"
#include "policies/shard/gathered.hpp"
#include "policies/shard/zero_step.hpp"

namespace tidemark {
namespace zero_detail {
namespace {

// Reads a number of elements under our name or DeepSpeed's.
std::int64_t elements(const Decoder& d, std::string_view ours, std::string_view theirs,
                      std::int64_t fallback, Range range) {
  const auto own = d.maybe<std::int64_t>(ours, range);
  const auto other = d.maybe<std::int64_t>(theirs, range);
  if (own && other) d.fail_at(theirs, "the same as the key beside it; give one of them");
  return own ? *own : other.value_or(fallback);
}

class Zero final : public TrainingRewrite {
 public:
  static std::unique_ptr<TrainingRewrite> decode(const Decoder& d) {
    auto policy = std::make_unique<Zero>();
    ZeroOptions& options = policy->options_;
    options.stage = d.optional<int>("stage", 2, between(1, 3));
    options.reduce_bucket =
        elements(d, "reduce_bucket", "reduce_bucket_size", options.reduce_bucket, at_least(1));
    const auto overlap = d.maybe<bool>("overlap");
    options.overlap = overlap ? *overlap : d.optional<bool>("overlap_comm", options.stage == 3);
    options.prefetch_bucket = elements(d, "prefetch_bucket", "stage3_prefetch_bucket_size",
                                       options.prefetch_bucket, at_least(0));
    // Taken for the sake of DeepSpeed's files: units are blocks here, which no limit divides.
    static_cast<void>(elements(d, "live_parameters", "stage3_max_live_parameters", 0, at_least(0)));
    options.max_reuse_distance = elements(d, "max_reuse_distance", "stage3_max_reuse_distance",
                                          options.max_reuse_distance, at_least(0));
    options.persistent_below = elements(d, "persistent_below", "stage3_param_persistence_threshold",
                                        options.persistent_below, at_least(0));
    options.sub_group = elements(d, "sub_group", "sub_group_size", options.sub_group, at_least(1));
    d.finish();
    return policy;
  }
  [[nodiscard]] std::string_view name() const override { return "zero"; }
  [[nodiscard]] TrainingStage stage() const override { return TrainingStage::kPartition; }
  [[nodiscard]] bool reduces_gradients() const override { return true; }
  void apply(TrainingGraph& graph, const RewriteContext& context) const override {
    shard_states(graph, options_, context);
  }
  void plan_recompute(const PolicyContext& context, ResidencyPlan& plan) const override {
    if (options_.stage < 3) return;
    const bool prefetches = options_.prefetch_bucket > 0;
    plan_gathers(context, prefetches ? BackwardPrefetch::kPre : BackwardPrefetch::kNone, plan);
  }

  void plan_movement(const PolicyContext& context, ResidencyPlan& plan) const override {
    count_shards(context, plan);
  }

 private:
  ZeroOptions options_;
};

}  // namespace
}  // namespace zero_detail

const PolicyEntry& zero_entry() {
  static constexpr PolicyEntry kEntry{
      .name = "zero",
      .kind = "training rewrite",
      .summary =
          "ranks share the optimizer state (stage 1), the gradients too (2), the parameters "
          "too (3), with the buckets and limits of DeepSpeed",
      .source = "DeepSpeed ZeRO (Rajbhandari et al. 2020)",
      .decode = [](const Decoder& d, const RewriteContext& /*context*/) -> AnyPolicy {
        return zero_detail::Zero::decode(d);
      },
      .mesh = [](const Decoder& /*d*/, MeshRequest& request) { request.shards = true; }};
  return kEntry;
}

}  // namespace tidemark
