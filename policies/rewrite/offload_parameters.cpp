#include "policies/rewrite/offload_parameters.hpp"

#include <algorithm>
#include <array>
#include <vector>

namespace tidemark {
namespace {

class OffloadParameters final : public TrainingRewrite {
 public:
  static std::unique_ptr<TrainingRewrite> decode(const Decoder& d) {
    static constexpr std::array<std::string_view, 2> kTierWords{"host", "nvme"};
    auto policy = std::make_unique<OffloadParameters>();
    policy->prefetch_ = d.optional<int>("prefetch", 1, at_least(0));
    policy->min_elements_ = d.optional<std::int64_t>("min_elements", 100'000, at_least(0));
    const bool nvme = d.optional_word("tier", kTierWords, "host") == "nvme";
    policy->tier_ = nvme ? Tier::kNvme : Tier::kHost;
    d.finish();
    return policy;
  }
  [[nodiscard]] std::string_view name() const override { return "offload_parameters"; }
  [[nodiscard]] TrainingStage stage() const override { return TrainingStage::kPlace; }
  void apply(TrainingGraph& graph) const override;
  void plan_movement(const PolicyContext& context, ResidencyPlan& plan) const override;

 private:
  int prefetch_ = 1;  // layers
  std::int64_t min_elements_ = 0;
  Tier tier_ = Tier::kHost;
};

void OffloadParameters::apply(TrainingGraph& graph) const {
  IdVector<StorageId, char> small(graph.storages.size(), 0);
  for (const TrainedParameter& trained : graph.trained) {
    if (trained.elements < min_elements_) small[trained.parameter] = 1;
  }
  for (StorageId s : ids_of(graph.storages)) {
    Storage& storage = graph.storages[s];
    if (storage.role != Role::kParameter || !storage.initial || small[s] != 0) continue;
    // Frozen parameters are no longer known by elements; two bytes is the narrowest usual type.
    if (storage.bytes.count < 2 * min_elements_) continue;
    storage.home = tier_;
  }
}

// Runs of positions that work on the same block, forward or backward: what "a layer ahead" means.
struct Visits {
  IdVector<Position, std::uint32_t> of;  // by position
  std::vector<Position> first;           // by visit

  explicit Visits(const PolicyContext& context) : of(context.order.at.size()) {
    int block = kNoBlock;
    Phase phase = Phase::kForward;
    for (Position p : ids_of(context.order.at)) {
      const Phase now = context.op_at(p).phase;
      if (first.empty() || context.block_at(p) != block || now != phase) first.push_back(p);
      block = context.block_at(p);
      phase = now;
      of[p] = static_cast<std::uint32_t>(first.size() - 1);
    }
  }
};

void OffloadParameters::plan_movement(const PolicyContext& context, ResidencyPlan& plan) const {
  const Visits visits(context);
  const auto ahead = static_cast<std::uint32_t>(prefetch_);
  PolicyOutcome& outcome = plan.outcomes().back();
  for (GapId id : ids_of(context.live.gaps)) {
    const Gap& gap = context.live.gaps[id];
    const Storage& storage = context.graph.storages[gap.storage];
    if (!gap.open() || storage.role != Role::kParameter || storage.home == Tier::kDevice) continue;
    if (context.op_at(gap.to).executor == Executor::kHost) continue;
    const std::uint32_t visit = visits.of[gap.to];
    const bool updated_on_host = context.op_at(gap.from).executor == Executor::kHost;
    if (!updated_on_host && visit - visits.of[gap.release] <= ahead) {
      plan.decide(id, Pin{.reason = "used again within the prefetch distance"});
      continue;
    }
    Position fetch_at = ahead == 0 ? gap.to : visits.first[visit - std::min(visit, ahead)];
    fetch_at = std::max(fetch_at, Position(gap.release.value + 1));
    const Offload offload{.fetch_at = fetch_at, .release_at = {}, .tier = storage.home};
    if (!plan.decide(id, offload)) continue;
    if (context.order.at[gap.to].step + 1 == context.order.steps) {
      outcome.offloaded += storage.bytes;
    }
  }
}

}  // namespace

const PolicyEntry& offload_parameters_entry() {
  static constexpr PolicyEntry kEntry{
      .name = "offload_parameters",
      .seam = "training rewrite",
      .summary =
          "keep parameters in host memory or on NVMe and fetch them `prefetch` layers before "
          "they are used",
      .source = "DeepSpeed ZeRO-3 offload_param (ZeRO-Infinity, Rajbhandari et al. 2021)",
      .decode = [](const Decoder& d) -> AnyPolicy { return OffloadParameters::decode(d); }};
  return kEntry;
}

}  // namespace tidemark
