// The policy `zero`: DeepSpeed's stages 1, 2 and 3.
#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "policies/rewrite/offload_optimizer.hpp"
#include "policies/shard/entries.hpp"
#include "policies/shard/gathered.hpp"
#include "policies/shard/shard_units.hpp"
#include "policies/shard/zero_step.hpp"

namespace tidemark {
namespace zero_detail {
namespace {

// Reads a number of elements under our name or DeepSpeed's, whose files write 5e8.
Elements elements(const Decoder& d, std::string_view ours, std::string_view theirs,
                  Elements fallback, Range range) {
  const auto other = d.maybe<double>(theirs, range);
  if (other && d.has(ours)) d.fail_at(theirs, "the same as the key beside it; give one of them");
  const double own = d.optional<double>(ours, static_cast<double>(fallback.count), range);
  const double read = other.value_or(own);
  constexpr double kMost = 1e15;  // whole numbers are exact up to it
  if (read != std::floor(read) || read > kMost)
    d.fail_at(other ? theirs : ours, "expected a whole number of elements, at most 1e15");
  return Elements(static_cast<std::int64_t>(read));
}

// Reads what DeepSpeed's files say as well, in the one way that is simulated.
void only(const Decoder& d, std::string_view key, bool value, std::string_view why) {
  if (d.optional<bool>(key, value) != value) d.fail_at(key, std::string(why));
}

// Reads where `offload` puts the parameters or the optimizer, or DeepSpeed's {device: cpu}.
Tier home_of(const Decoder& d, std::string_view ours, std::string_view theirs) {
  static constexpr std::array<std::string_view, 3> kHomes{"none", "host", "nvme"};
  static constexpr std::array<std::string_view, 3> kDevices{"none", "cpu", "nvme"};
  const Decoder own = d.optional_child("offload");
  std::string home = own.optional_word(ours, kHomes, kHomes[0]);
  for (const Value::Entry& entry : own.value().entries) {
    if (entry.key != "optimizer" && entry.key != "parameters")
      own.fail_at(entry.key, "expected optimizer or parameters");
  }
  if (d.has(theirs)) {
    if (own.has(ours)) d.fail_at(theirs, "offload says the same; give one of them");
    const Decoder other = d.required_child(theirs);
    home = other.required_word("device", kDevices);
    other.finish();
  }
  return home == "none" ? Tier::kDevice : home == "nvme" ? Tier::kNvme : Tier::kHost;
}

// Reads the ranks of ZeRO++'s second partition; 0 and 1 leave it out. More than there are mean all
// of them (deepspeed/utils/groups.py).
void decode_secondary(const Decoder& d, const Mesh& mesh, ZeroOptions& options) {
  constexpr std::string_view kKey = "zero_hpz_partition_size";
  const int given = d.optional<int>(kKey, 1, at_least(0));
  if (given <= 1) return;
  if (options.stage < 3) {
    d.fail_at(kKey, fmt::format("belongs to stage: 3, which gathers the parameters, and this is "
                                "stage: {}; leave it out, or write stage: 3",
                                options.stage));
  }
  const int ranks = mesh.size(MeshDimension::kShard);
  const int secondary = std::min(given, ranks);
  if (secondary == 1) return;
  if (ranks % secondary != 0) {
    d.fail_at(kKey,
              fmt::format("{} ranks share the parameters (hardware.count, divided by the sizes of "
                          "other policies), which groups of {} do not divide; write a factor of {}",
                          ranks, secondary, ranks));
  }
  for (const MeshDimension other :
       {MeshDimension::kTensor, MeshDimension::kExpert, MeshDimension::kPipeline}) {
    if (mesh.size(other) == 1) continue;
    const std::string policy = policy_of(other, mesh);
    d.fail_at(kKey, fmt::format("DeepSpeed makes its groups of consecutive GPUs, which hold "
                                "different parts of the model under {}; write 1, or leave {} out",
                                policy, policy));
  }
  if (options.parameters_home == Tier::kNvme) {
    d.fail_at(kKey, fmt::format("the second partition is kept on the device or the host, and {} "
                                "puts the parameters on NVMe; write 1, or offload them to the host",
                                d.has("offload_param") ? "offload_param: {device: nvme}"
                                                       : "offload: {parameters: nvme}"));
  }
  options.secondary_ranks = secondary;
}

class Zero final : public TrainingRewrite {
 public:
  static std::unique_ptr<TrainingRewrite> decode(const Decoder& d, const RewriteContext& context) {
    auto policy = std::make_unique<Zero>();
    ZeroOptions& options = policy->options_;
    options.stage = d.optional<int>("stage", 2, between(1, 3));
    options.reduce_bucket =
        elements(d, "reduce_bucket", "reduce_bucket_size", options.reduce_bucket, at_least(1));
    const auto theirs = d.maybe<bool>("overlap_comm");
    if (theirs && d.has("overlap"))
      d.fail_at("overlap_comm", "the same as the key beside it; give one of them");
    options.overlap = theirs.value_or(d.optional<bool>("overlap", options.stage == 3));
    only(d, "contiguous_gradients", true, "gradients are always copied into one buffer here");
    only(d, "reduce_scatter", true,
         "only the default, a reduction of every rank's part of the bucket, is simulated");
    // DeepSpeed gathers the whole flat tensor in place, whatever this says.
    static_cast<void>(d.maybe<double>("allgather_bucket_size", at_least(1)));
    options.prefetch_bucket = elements(d, "prefetch_bucket", "stage3_prefetch_bucket_size",
                                       options.prefetch_bucket, at_least(0));
    options.live_parameters = elements(d, "live_parameters", "stage3_max_live_parameters",
                                       options.live_parameters, at_least(0));
    options.max_reuse_distance = elements(d, "max_reuse_distance", "stage3_max_reuse_distance",
                                          options.max_reuse_distance, at_least(0));
    options.persistent_below = elements(d, "persistent_below", "stage3_param_persistence_threshold",
                                        options.persistent_below, at_least(0));
    if (options.stage < 3) {
      // DeepSpeed's files name what belongs to stage 3 whatever the stage.
      for (const std::string_view key : {"prefetch_bucket", "live_parameters", "max_reuse_distance",
                                         "persistent_below", "sub_group"}) {
        if (d.has(key))
          d.fail_at(key, "belongs to stage 3, which shards the parameters; leave it out");
      }
    }
    options.sub_group = elements(d, "sub_group", "sub_group_size", options.sub_group, at_least(1));
    options.optimizer_home = home_of(d, "optimizer", "offload_optimizer");
    options.parameters_home = home_of(d, "parameters", "offload_param");
    decode_secondary(d, context.mesh, options);
    if (options.parameters_home != Tier::kDevice && options.stage < 3) {
      d.fail_at(d.has("offload_param") ? "offload_param" : "offload",
                "parameters are whole on every rank below stage 3, and only its partitions can "
                "leave the device; write stage: 3, or offload the optimizer alone");
    }
    if (options.optimizer_home != Tier::kDevice) {
      policy->update_ = make_offload_optimizer({.overlap = false,
                                                .tier = options.optimizer_home,
                                                .streams_gradients = true,
                                                .sub_group = options.sub_group});
    }
    d.finish();
    const bool alone = context.device != nullptr && context.mesh.size(MeshDimension::kData) == 1;
    if (alone && options.parameters_home != Tier::kDevice) {
      policy->remark_ =
          "zero moves no parameters on one GPU, which has no partitions of them: the policy "
          "offload_parameters moves whole ones, as DeepSpeed does there";
    }
    if (options.stage > 1 && context.mesh.size(MeshDimension::kPipeline) > 1) {
      policy->remark_ =
          "DeepSpeed's pipelines refuse ZeRO above stage 1 (PipelineEngine: 'ZeRO-2 and ZeRO-3 are "
          "incompatible with pipeline parallelism'): the figures are what its rules would give; "
          "write stage: 1, or fsdp";
    }
    return policy;
  }
  [[nodiscard]] std::string_view remark() const override { return remark_; }
  [[nodiscard]] std::string_view name() const override { return "zero"; }
  // Stage 3 shards the parameters, which an evaluation gathers as well.
  [[nodiscard]] bool acts_in_evaluation(bool /*computes_loss*/) const override {
    return options_.stage == 3;
  }
  [[nodiscard]] std::optional<TrainingSystem> system() const override {
    return TrainingSystem::kDeepSpeed;
  }
  [[nodiscard]] TrainingStage stage() const override { return TrainingStage::kPartition; }
  [[nodiscard]] bool reduces_gradients() const override { return true; }
  [[nodiscard]] int gather_ranks() const override { return options_.secondary_ranks.value_or(1); }
  // Stage 3 gathers as many elements ahead as its bucket holds.
  [[nodiscard]] bool decides_by_structure() const override {
    return options_.stage < 3 && update_ == nullptr;
  }
  void apply(TrainingGraph& graph, const RewriteContext& context) const override {
    shard_states(graph, options_, context);
  }
  void plan_recompute(const PolicyContext& context, ResidencyPlan& plan) const override {
    if (options_.stage < 3) return;
    plan_gathers(context,
                 {.when = BackwardPrefetch::kPre,
                  .bucket = options_.prefetch_bucket,
                  .most_live = options_.live_parameters},
                 plan);
  }
  [[nodiscard]] const TrainingRewrite* next() const override { return update_.get(); }

  void plan_movement(const PolicyContext& context, ResidencyPlan& plan) const override {
    count_shards(context, plan);
    if (update_ != nullptr) update_->plan_movement(context, plan);
  }

 private:
  ZeroOptions options_;
  std::unique_ptr<TrainingRewrite> update_;  // on the host; null on the device
  std::string_view remark_;
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
      .decode = [](const Decoder& d, const RewriteContext& context) -> AnyPolicy {
        return zero_detail::Zero::decode(d, context);
      },
      .mesh = [](const Decoder& /*d*/, MeshRequest& request) { request.shards = true; }};
  return kEntry;
}

}  // namespace tidemark
