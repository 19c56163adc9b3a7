// The policy `fsdp`: parameters, gradients and optimizer state in shards, parameters gathered unit
// by unit.
#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "policies/shard/entries.hpp"
#include "policies/shard/fsdp_step.hpp"
#include "policies/shard/gathered.hpp"

namespace tidemark {
namespace fsdp_detail {
namespace {

constexpr std::array<std::string_view, 3> kTypes{"fp32", "bf16", "fp16"};
constexpr std::array<std::string_view, 3> kPrefetches{"pre", "post", "none"};

std::optional<DType> decode_type(const Decoder& d, std::string_view key) {
  if (!d.has(key)) return std::nullopt;
  const std::string word = d.required_word(key, kTypes);
  return word == "fp32" ? DType::kFloat32 : word == "bf16" ? DType::kBFloat16 : DType::kFloat16;
}

class Fsdp final : public TrainingRewrite {
 public:
  static std::unique_ptr<TrainingRewrite> decode(const Decoder& d) {
    auto policy = std::make_unique<Fsdp>();
    FsdpOptions& options = policy->options_;
    options.version = d.optional<int>("version", 2, between(1, 2));
    options.units = decode_units(d);
    options.param_dtype = decode_type(d, "param_dtype");
    options.reduce_dtype = decode_type(d, "reduce_dtype");
    options.reshard_after_forward = d.maybe<bool>("reshard_after_forward");
    if (options.version == 1) {
      options.use_orig_params = d.optional<bool>("use_orig_params", false);
    } else if (d.has("use_orig_params")) {
      d.fail_at("use_orig_params",
                "version 2 shards each parameter by itself; leave it out, or write version: 1");
    }
    const std::string prefetch = d.optional_word("prefetch", kPrefetches, "pre");
    policy->prefetch_ = prefetch == "pre"    ? BackwardPrefetch::kPre
                        : prefetch == "post" ? BackwardPrefetch::kPost
                                             : BackwardPrefetch::kNone;
    static_cast<void>(d.maybe<int>("shard", at_least(1)));  // read by `mesh`
    d.finish();
    return policy;
  }
  [[nodiscard]] std::string_view name() const override { return "fsdp"; }
  [[nodiscard]] TrainingStage stage() const override { return TrainingStage::kPartition; }
  [[nodiscard]] bool reduces_gradients() const override { return true; }
  [[nodiscard]] std::optional<DType> compute_dtype() const override { return options_.param_dtype; }
  void apply(TrainingGraph& graph, const RewriteContext& context) const override {
    shard_fully(graph, options_, context);
  }
  void plan_recompute(const PolicyContext& context, ResidencyPlan& plan) const override {
    plan_gathers(context, prefetch_, plan);
  }
  void plan_movement(const PolicyContext& context, ResidencyPlan& plan) const override {
    count_shards(context, plan);
    // limit_all_gathers: the host waits while more than two gathers are under way.
    if (options_.version == 1) {
      plan.throttle(
          {.stream = Stream::kShardGroup, .in_flight = 2, .waits = Throttle::Waits::kHost});
    }
  }

 private:
  FsdpOptions options_;
  BackwardPrefetch prefetch_ = BackwardPrefetch::kPre;
};

}  // namespace
}  // namespace fsdp_detail

const PolicyEntry& fsdp_entry() {
  static constexpr PolicyEntry kEntry{
      .name = "fsdp",
      .kind = "training rewrite",
      .summary =
          "ranks hold shards of parameters, gradients and optimizer state; the parameters of a "
          "unit are gathered when its module runs and gradients reduced into shards behind it",
      .source =
          "PyTorch FullyShardedDataParallel (version 1, Zhao et al. 2023) and fully_shard "
          "(version 2)",
      .decode = [](const Decoder& d, const RewriteContext& /*context*/) -> AnyPolicy {
        return fsdp_detail::Fsdp::decode(d);
      },
      .mesh =
          [](const Decoder& d, MeshRequest& request) {
            request.shards = true;
            if (const auto shard = d.maybe<int>("shard", at_least(1))) request.shard = shard;
          }};
  return kEntry;
}

}  // namespace tidemark
