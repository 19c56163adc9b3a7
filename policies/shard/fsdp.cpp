// The policy `fsdp`: parameters, gradients and optimizer state in shards, parameters gathered unit
// by unit.
#include <array>
#include <optional>
#include <string_view>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "policies/rewrite/offload_optimizer.hpp"
#include "policies/shard/entries.hpp"
#include "policies/shard/fsdp_step.hpp"
#include "policies/shard/gathered.hpp"
#include "policies/shard/shard_units.hpp"

namespace tidemark {
namespace fsdp_detail {
namespace {

constexpr std::array<std::string_view, 3> kTypes{"fp32", "bf16", "fp16"};
constexpr std::array<std::string_view, 2> kHomes{"none", "host"};
constexpr std::array<std::string_view, 3> kPrefetches{"pre", "post", "none"};

std::optional<DType> decode_type(const Decoder& d, std::string_view key) {
  const std::optional<std::string> word = d.maybe_word(key, kTypes);
  if (!word) return std::nullopt;
  return *word == "fp32" ? DType::kFloat32 : *word == "bf16" ? DType::kBFloat16 : DType::kFloat16;
}

// Reads whether units are resharded behind forward, and to how many ranks: true is all of those
// that share a unit, false is one, which holds all of it.
void decode_reshard(const Decoder& d, const Mesh& mesh, FsdpOptions& options) {
  constexpr std::string_view kKey = "reshard_after_forward";
  const auto reshard = d.maybe<FlagOrNumber>(kKey, at_least(1));
  if (!reshard) return;
  if (const bool* flag = std::get_if<bool>(&*reshard)) {
    options.reshard_after_forward = *flag;
    return;
  }
  const int ranks = std::get<int>(*reshard);
  if (options.version == 1) {
    d.fail_at(kKey,
              "version 1 reshards to all ranks or not at all; write true or false, or version: 2");
  }
  const int shard = mesh.size(MeshDimension::kShard);
  if (mesh.replicas() > 1 && shard % ranks != 0) {
    const std::string_view from = d.has("shard") ? " (shard)" : "";
    d.fail_at(kKey, shard == 1 ? fmt::format("shard: 1 leaves every unit whole on its rank, "
                                             "which has no group of {}; write false",
                                             ranks)
                               : fmt::format("{} ranks share a unit{}, which groups of {} do not "
                                             "divide; write a factor of {}, true or false",
                                             shard, from, ranks, shard));
  }
  const bool smaller = ranks > 1 && ranks < shard;
  if (!smaller) {
    options.reshard_after_forward = ranks > 1;
    return;
  }
  for (const MeshDimension other : {MeshDimension::kTensor, MeshDimension::kExpert}) {
    if (mesh.size(other) == 1) continue;
    d.fail_at(kKey, fmt::format("fully_shard cannot reshard to smaller groups what {} has divided "
                                "(DTensor parameters); write true or false",
                                policy_of(other, mesh)));
  }
  if (mesh.size(MeshDimension::kPipeline) > 1) {
    d.fail_at(kKey, fmt::format("under {} micro-batches are in flight together, and only the first "
                                "of them would gather from all ranks, which is not simulated; "
                                "write true or false",
                                policy_of(MeshDimension::kPipeline, mesh)));
  }
  options.reshard_after_forward = true;
  options.backward_ranks = ranks;
}

class Fsdp final : public TrainingRewrite {
 public:
  static std::unique_ptr<TrainingRewrite> decode(const Decoder& d, const RewriteContext& context) {
    auto policy = std::make_unique<Fsdp>();
    FsdpOptions& options = policy->options_;
    options.version = d.optional<int>("version", 2, between(1, 2));
    options.units = decode_units(d);
    options.param_dtype = decode_type(d, "param_dtype");
    options.reduce_dtype = decode_type(d, "reduce_dtype");
    decode_reshard(d, context.mesh, options);
    if (options.version == 1) {
      options.use_orig_params = d.maybe<bool>("use_orig_params");
      policy->limits_gathers_ = d.optional<bool>("limit_all_gathers", true);
    } else {
      d.mention("use_orig_params", "true or false", "of version: 1");
      d.mention("limit_all_gathers", "true or false", "true by default, of version: 1");
      for (const std::string_view key : {"use_orig_params", "limit_all_gathers"}) {
        if (!d.has(key)) continue;
        d.fail_at(key, key == "use_orig_params"
                           ? "version 2 shards each parameter by itself; leave it out, or write "
                             "version: 1"
                           : "version 2 needs no limit, since its queues wait for each other; "
                             "leave it out, or write version: 1");
      }
    }
    options.no_sync = d.maybe<bool>("no_sync");
    options.all_reduce_each = d.optional<bool>("all_reduce_each", true);
    if (options.no_sync.value_or(false) && !options.all_reduce_each)
      d.fail_at("all_reduce_each", "with no_sync: true only the last micro-batch reduces anything");
    if (options.version == 1 && !options.all_reduce_each) {
      d.fail_at("all_reduce_each",
                "version 1 adds up replicas in every micro-batch that reduces; "
                "leave it out, or write version: 2");
    }
    const std::string prefetch = d.optional_word("prefetch", kPrefetches, "pre");
    policy->prefetch_ = prefetch == "pre"    ? BackwardPrefetch::kPre
                        : prefetch == "post" ? BackwardPrefetch::kPost
                                             : BackwardPrefetch::kNone;
    static_cast<void>(d.maybe<int>("shard", at_least(1)));  // read by `mesh`
    if (d.optional_word("offload", kHomes, "none") == "host") {
      options.shard_home = Tier::kHost;
      // Gradients leave when they are reduced, and one optimizer on the CPU updates all shards.
      policy->update_ = make_offload_optimizer({.overlap = false, .streams_gradients = true});
    }
    d.finish();
    return policy;
  }
  [[nodiscard]] std::string_view name() const override { return "fsdp"; }
  [[nodiscard]] std::optional<TrainingSystem> system() const override {
    return TrainingSystem::kTorch;
  }
  [[nodiscard]] TrainingStage stage() const override { return TrainingStage::kPartition; }
  [[nodiscard]] bool reduces_gradients() const override { return true; }
  [[nodiscard]] int gather_ranks() const override { return options_.backward_ranks.value_or(1); }
  // It gathers one unit ahead, whatever its size.
  [[nodiscard]] bool decides_by_structure() const override { return update_ == nullptr; }
  [[nodiscard]] std::optional<DType> compute_dtype() const override { return options_.param_dtype; }
  void apply(TrainingGraph& graph, const RewriteContext& context) const override {
    shard_fully(graph, options_, context);
  }
  void plan_recompute(const PolicyContext& context, ResidencyPlan& plan) const override {
    plan_gathers(context, {.when = prefetch_}, plan);
  }
  [[nodiscard]] const TrainingRewrite* next() const override { return update_.get(); }
  void plan_movement(const PolicyContext& context, ResidencyPlan& plan) const override {
    count_shards(context, plan);
    if (update_ != nullptr) update_->plan_movement(context, plan);
    if (options_.version == 1 && limits_gathers_) {
      plan.throttle({.stream = Stream::kShardGroup, .in_flight = 2, .counts_freed_units = true});
    }
  }

 private:
  FsdpOptions options_;
  BackwardPrefetch prefetch_ = BackwardPrefetch::kPre;
  std::unique_ptr<TrainingRewrite> update_;  // on the host; null on the device
  bool limits_gathers_ = true;               // version 1: limit_all_gathers
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
      .decode = [](const Decoder& d, const RewriteContext& context) -> AnyPolicy {
        return fsdp_detail::Fsdp::decode(d, context);
      },
      .mesh =
          [](const Decoder& d, MeshRequest& request) {
            request.shards = true;
            if (const auto shard = d.maybe<int>("shard", at_least(1))) request.shard = shard;
          }};
  return kEntry;
}

}  // namespace tidemark
