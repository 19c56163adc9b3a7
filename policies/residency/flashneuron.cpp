#include "policies/residency/flashneuron.hpp"

#include <algorithm>

#include "policies/residency/memory_curve.hpp"
#include "policies/residency/prefetch.hpp"

namespace tidemark {
namespace {

// In forward order saved tensors are selected until they make up for what the predicted peak has
// above the budget; then the last ones are dropped until their copies take no longer than the
// forward pass, so that forward never waits. FlashNeuron compresses before it drops and writes to
// an SSD; here nothing is compressed, and the tier is pinned host memory.
class FlashNeuron final : public ResidencyPolicy, public Budgeted {
 public:
  FlashNeuron(Prefetch prefetch, Bytes min_bytes) : prefetch_(prefetch), min_bytes_(min_bytes) {}
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
      selected.copies += copy_out_time(context, gap.bytes);
      departures.push_back({.gap = gap, .release_at = {}, .fetch_at = {}});
    }
    // The second phase, from the last selected one back.
    for (std::size_t i = departures.size(); i-- > 0;) {
      Selected& selected = of_round[departures[i].gap.round];
      if (selected.copies <= forward[departures[i].gap.round]) continue;
      selected.copies -= copy_out_time(context, departures[i].gap.bytes);
      departures.erase(departures.begin() + static_cast<std::ptrdiff_t>(i));
    }
    place_fetches(context, plan, prefetch, departures);
    decide_offloads(context, departures, plan);
  }

 private:
  Prefetch prefetch_;
  Bytes min_bytes_;
};

}  // namespace

const PolicyEntry& flashneuron_entry() {
  static constexpr PolicyEntry kEntry{
      .name = "flashneuron",
      .seam = "residency",
      .summary =
          "copy out the first saved tensors until the `budget` is met, but no more than forward "
          "can hide",
      .source = "Bae et al. 2021, FlashNeuron (FAST'21)",
      .decode = [](const Decoder& d) -> AnyPolicy {
        const Prefetch prefetch = decode_prefetch(d, "earliest");
        const Bytes min_bytes = d.optional<Bytes>("min_bytes", kKiB);
        d.finish();
        return std::make_unique<FlashNeuron>(prefetch, min_bytes);
      }};
  return kEntry;
}

}  // namespace tidemark
