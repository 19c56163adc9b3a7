#include <algorithm>
#include <set>
#include <utility>

#include "policies/residency/entries.hpp"
#include "policies/residency/parts_of_hybrid.hpp"
#include "policies/residency/prefetch.hpp"
#include "policies/residency/within_budget.hpp"

namespace tidemark {
namespace belady_detail {
namespace {

std::vector<Departure> evict(const PolicyContext& context, const ResidencyPlan& plan, Bytes budget,
                             Bytes min_bytes) {
  MemoryCurve curve(context, plan);
  const std::vector<SavedGap> saved = saved_gaps(context, min_bytes);
  std::vector<Departure> departures;
  std::set<std::pair<Position, std::size_t>> resident;  // by next use; index into `saved`
  std::size_t next = 0;
  for (Position p : ids_of(context.order.at)) {
    for (; next < saved.size() && saved[next].release < p; ++next) {
      if (!plan.decided(saved[next].id)) resident.emplace(saved[next].to, next);
    }
    while (!resident.empty() && resident.begin()->first <= p)
      resident.erase(resident.begin());
    while (curve.at(p) > budget && !resident.empty()) {
      const SavedGap& gap = saved[resident.rbegin()->second];
      resident.erase(std::prev(resident.end()));
      departures.push_back({.gap = gap, .release_at = p, .fetch_at = gap.to});
      curve.add(p, gap.to, -gap.bytes);
    }
  }
  return departures;
}

class Belady final : public PrefetchingPolicy {
 public:
  Belady(Prefetch prefetch, Bytes min_bytes) : PrefetchingPolicy(prefetch), min_bytes_(min_bytes) {}
  [[nodiscard]] std::string_view name() const override { return "belady"; }

  void plan_movement(const PolicyContext& context, ResidencyPlan& plan) const override {
    plan_belady(context, fetching(), min_bytes_, plan);
  }

 private:
  Bytes min_bytes_;
};

}  // namespace
}  // namespace belady_detail

void plan_belady(const PolicyContext& context, const Prefetch& fetching, Bytes min_bytes,
                 ResidencyPlan& plan) {
  arrange_within(context, fetching.budget, plan, [&](Bytes budget, ResidencyPlan& tried) {
    Prefetch prefetch = fetching;
    prefetch.budget = budget;
    std::vector<Departure> departures = belady_detail::evict(context, tried, budget, min_bytes);
    place_fetches(context, tried, prefetch, departures);
    decide_offloads(context, departures, tried);
  });
}

const PolicyEntry& belady_entry() {
  static constexpr PolicyEntry kEntry{
      .name = "belady",
      .kind = "residency",
      .summary =
          "while live bytes pass the `budget`, copy out the saved tensor with the farthest next "
          "use; fetch it as soon as there is room",
      .source = "Belady 1966; as the swap planner of SwapAdvisor (Huang et al. 2020)",
      .decode = [](const Decoder& d, const RewriteContext& /*context*/) -> AnyPolicy {
        const Prefetch prefetch = decode_prefetch(d, "earliest");
        const Bytes min_bytes = d.optional<Bytes>("min_bytes", kKiB);
        d.finish();
        return std::make_unique<belady_detail::Belady>(prefetch, min_bytes);
      }};
  return kEntry;
}

}  // namespace tidemark
