#include "policies/residency/flashneuron.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "policies/residency/memory_curve.hpp"
#include "policies/residency/prefetch.hpp"

namespace tidemark {
namespace {

// In forward order saved tensors are selected until they make up for what the predicted peak has
// above the budget; then the last ones are dropped until their copies take no longer than the
// forward pass, so that forward never waits. The SSD is reached through a pinned buffer of the host
// where FlashNeuron's GPUDirect goes straight to it: the slower of link and disk counts.
// FlashNeuron compresses before it drops; here nothing is compressed.
class FlashNeuron final : public ResidencyPolicy, public Budgeted {
 public:
  FlashNeuron(Prefetch prefetch, Tier tier, Bytes min_bytes)
      : prefetch_(prefetch), tier_(tier), min_bytes_(min_bytes) {}
  [[nodiscard]] std::string_view name() const override { return "flashneuron"; }
  [[nodiscard]] std::optional<Bytes> budget() const override { return prefetch_.budget; }

  void plan_movement(const PolicyContext& context, ResidencyPlan& plan) const override {
    Prefetch prefetch = prefetch_;
    prefetch.budget = curve_budget(context, plan, prefetch_.budget);
    const std::int64_t excess = MemoryCurve(context, plan).peak() - prefetch.budget->count;
    if (excess <= 0) return;
    std::vector<Duration> forward(static_cast<std::size_t>(context.order.steps) *
                                  static_cast<std::size_t>(context.order.micro_batches));
    for (const Occurrence& o : context.order.at) {
      if (o.recompute || context.graph.operators[o.op].phase != Phase::kForward) continue;
      forward[round_of(context, o)] += context.durations[o.op];
    }
    struct Selected {
      std::int64_t bytes = 0;
      Duration copies{};
    };
    std::vector<Selected> of_round(forward.size());
    std::vector<Departure> departures;
    for (const SavedGap& gap : saved_gaps(context, min_bytes_)) {
      Selected& selected = of_round[gap.round];
      if (plan.decided(gap.id) || selected.bytes >= excess) continue;
      selected.bytes += gap.bytes.count;
      selected.copies += time_out(context, gap.bytes);
      departures.push_back({.gap = gap, .release_at = {}, .fetch_at = {}, .tier = tier_});
    }
    // The second phase, from the last selected one back.
    for (std::size_t i = departures.size(); i-- > 0;) {
      Selected& selected = of_round[departures[i].gap.round];
      if (selected.copies <= forward[departures[i].gap.round]) continue;
      selected.copies -= time_out(context, departures[i].gap.bytes);
      departures.erase(departures.begin() + static_cast<std::ptrdiff_t>(i));
    }
    place_fetches(context, plan, prefetch, departures);
    decide_offloads(context, departures, plan);
  }

 private:
  [[nodiscard]] Duration time_out(const PolicyContext& context, Bytes bytes) const {
    const Duration link = copy_out_time(context, bytes);
    const NvmeProfile& disk = context.device.nvme;
    const double rate = disk.reached(disk.write).value;
    if (tier_ != Tier::kNvme || rate <= 0) return link;
    const double ns = static_cast<double>(bytes.count) * 1e9 / rate;
    return std::max(link, disk.latency + Duration(std::llround(ns)));
  }

  Prefetch prefetch_;
  Tier tier_;
  Bytes min_bytes_;
};

}  // namespace

const PolicyEntry& flashneuron_entry() {
  static constexpr PolicyEntry kEntry{
      .name = "flashneuron",
      .seam = "residency",
      .summary =
          "copy the first saved tensors to NVMe, or only to the host, until the `budget` is met, "
          "but "
          "no more than forward can hide",
      .source = "Bae et al. 2021, FlashNeuron (FAST'21)",
      .decode = [](const Decoder& d) -> AnyPolicy {
        static constexpr std::array<std::string_view, 2> kTierWords{"nvme", "host"};
        const Prefetch prefetch = decode_prefetch(d, "earliest");
        const bool nvme = d.optional_word("tier", kTierWords, "nvme") == "nvme";
        const Bytes min_bytes = d.optional<Bytes>("min_bytes", kKiB);
        d.finish();
        return std::make_unique<FlashNeuron>(prefetch, nvme ? Tier::kNvme : Tier::kHost, min_bytes);
      }};
  return kEntry;
}

}  // namespace tidemark
