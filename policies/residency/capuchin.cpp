#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>

#include "policies/residency/entries.hpp"
#include "policies/residency/prefetch.hpp"
#include "policies/residency/recipe.hpp"
#include "policies/residency/swap_window.hpp"
#include "policies/residency/within_budget.hpp"

namespace tidemark {
namespace capuchin_detail {
namespace {

struct Candidate {
  SavedGap gap;
  Duration free{};  // free time on an idle link
  std::optional<Recipe> recipe;
  bool searched = false;  // a recipe has been searched for
  bool taken = false;
};

double saving_per_second(Bytes bytes, Duration cost) {
  return static_cast<double>(bytes.count) / std::max(1.0, static_cast<double>(cost.count()));
}

bool live_at(const Candidate& candidate, Position peak) {
  return !candidate.taken && candidate.gap.release < peak && candidate.gap.to > peak;
}

// Returns the value with the largest free time of those live at the peak; nullptr if none can
// leave.
Candidate* most_free(std::vector<Candidate>& candidates, Position peak) {
  Candidate* most = nullptr;
  for (Candidate& c : candidates) {
    if (live_at(c, peak) && (most == nullptr || c.free > most->free)) most = &c;
  }
  return most;
}

// Returns the value live at the peak whose recomputation saves most memory per second; nullptr if
// none saves more than `swap`, which makes compute wait for `wait`.
Candidate* better_recomputed(const PolicyContext& context, const ResidencyPlan& plan,
                             const Candidate& swap, Duration wait, Position peak,
                             std::vector<Candidate>& candidates) {
  Candidate* recomputed = nullptr;
  double best = saving_per_second(swap.gap.bytes, wait);
  for (Candidate& c : candidates) {
    if (!live_at(c, peak)) continue;
    if (!c.searched) c.recipe = recipe_of(context, plan, c.gap);
    c.searched = true;
    if (!c.recipe || saving_per_second(c.gap.bytes, c.recipe->cost) <= best) continue;
    best = saving_per_second(c.gap.bytes, c.recipe->cost);
    recomputed = &c;
  }
  return recomputed;
}

// While the predicted peak passes the budget, of the values that are live at it:
//   - the one with the largest free time is swapped if compute waits for none of its copies, on the
//     link as the swaps before it leave it;
//   - else the better of swapping it and recomputing the value with the largest memory saving per
//     second (MSPS = bytes / recompute time), by bytes saved per second lost.
// A swap comes back at the latest operator that hides the copy, not inside the peak. Feedback: a
// copy that would still arrive late on the busy link is triggered earlier by 5 % of its time,
// repeatedly.
class Capuchin final : public PrefetchingPolicy {
 public:
  Capuchin(Prefetch prefetch, bool recompute, Bytes min_bytes)
      : PrefetchingPolicy(prefetch), recompute_(recompute), min_bytes_(min_bytes) {}
  [[nodiscard]] std::string_view name() const override { return "capuchin"; }
  void plan_recompute(const PolicyContext& context, ResidencyPlan& plan) const override {
    if (recompute_) plan_within(context, plan, true);
  }
  // The memory that recomputation itself adds is known only in this pass.
  void plan_movement(const PolicyContext& context, ResidencyPlan& plan) const override {
    plan_within(context, plan, false);
  }

 private:
  void plan_within(const PolicyContext& context, ResidencyPlan& plan, bool recompute) const {
    arrange_within(context, fetching().budget, plan, [&](Bytes budget, ResidencyPlan& tried) {
      relieve(context, tried, recompute, budget);
    });
  }
  void relieve(const PolicyContext& context, ResidencyPlan& plan, bool recompute,
               Bytes budget) const;
  static void feed_back(const PolicyContext& context, const std::vector<Duration>& starts,
                        const MemoryCurve& curve, Bytes budget, std::vector<Departure>& departures);

  bool recompute_;
  Bytes min_bytes_;
};

void Capuchin::relieve(const PolicyContext& context, ResidencyPlan& plan, bool recompute,
                       Bytes budget) const {
  const std::vector<Duration> starts = predicted_starts(context);
  MemoryCurve curve(context, plan);
  std::vector<Candidate> candidates;
  for (const SavedGap& gap : saved_gaps(context, min_bytes_)) {
    if (plan.decided(gap.id)) continue;
    candidates.push_back({.gap = gap, .free = free_time(context, starts, gap), .recipe = {}});
  }
  std::vector<Departure> departures;
  CopyQueues queues(context, starts);
  while (curve.peak() > budget) {
    const Position peak = curve.peak_at();
    Candidate* const swap = most_free(candidates, peak);
    if (swap == nullptr) break;  // nothing at the peak can leave
    const Departure departure = swap_window(context, starts, curve, swap->gap, budget);
    const Duration wait = recompute ? queues.added_wait(departure) : Duration(0);
    Candidate* const recomputed =
        wait > Duration(0) ? better_recomputed(context, plan, *swap, wait, peak, candidates)
                           : nullptr;
    Candidate& chosen = recomputed != nullptr ? *recomputed : *swap;
    chosen.taken = true;
    if (recomputed != nullptr) {
      // Decisions since the recipe was found may have dropped its inputs.
      const std::optional<Recipe> recipe = recipe_of(context, plan, chosen.gap);
      if (recipe && decide_recompute(chosen.gap, *recipe, plan)) {
        curve.add(Position(chosen.gap.release.value + 1), chosen.gap.to, -chosen.gap.bytes);
      }
      continue;
    }
    take_off(departure, curve);
    departures.push_back(departure);
    if (recompute) queues.add(departure);
  }
  if (fetching().rule == PrefetchRule::kOwn) {
    feed_back(context, starts, curve, budget, departures);
  } else {
    Prefetch prefetch = fetching();
    prefetch.budget = budget;
    place_fetches(context, plan, prefetch, departures);
  }
  decide_offloads(context, departures, plan);
}

void Capuchin::feed_back(const PolicyContext& context, const std::vector<Duration>& starts,
                         const MemoryCurve& curve, Bytes budget,
                         std::vector<Departure>& departures) {
  constexpr int kPasses = 100;  // five swap times
  std::vector<Duration> trigger;
  std::vector<Position> earliest;  // earliest operator with room until the use
  MemoryCurve room = curve;
  for (const Departure& d : departures) {
    trigger.push_back(starts[d.fetch_at.index()]);
    const Position first = std::min(Position(d.release_at.value + 1), d.gap.to);
    const Position fits = room.earliest_fit(first, d.fetch_at, d.gap.bytes, budget);
    earliest.push_back(fits);
    room.add(fits, d.fetch_at, d.gap.bytes);
  }
  std::vector<std::size_t> order(departures.size());
  for (int pass = 0; pass < kPasses; ++pass) {
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return departures[a].fetch_at < departures[b].fetch_at;
    });
    Duration link{};
    bool moved = false;
    for (std::size_t i : order) {
      Departure& d = departures[i];
      const Duration copy = copy_in_time(context, d.gap.bytes);
      link = std::max(link, starts[d.fetch_at.index()]) + copy;
      if (link <= starts[d.gap.to.index()] || d.fetch_at <= earliest[i]) continue;
      trigger[i] -= copy / 20;
      const auto later = std::upper_bound(starts.begin(), starts.end(), trigger[i]);
      const Position at(
          static_cast<std::size_t>(std::max<std::ptrdiff_t>(later - starts.begin() - 1, 0)));
      d.fetch_at = std::max(std::min(at, d.fetch_at), earliest[i]);
      moved = true;
    }
    if (!moved) break;
  }
}

}  // namespace
}  // namespace capuchin_detail

const PolicyEntry& capuchin_entry() {
  static constexpr PolicyEntry kEntry{
      .name = "capuchin",
      .kind = "residency",
      .summary =
          "while live bytes pass the `budget`, swap what has the most free time, or recompute what "
          "saves most memory per second; without `recompute` only swap",
      .source = "Peng et al. 2020, Capuchin (ASPLOS'20)",
      .decode = [](const Decoder& d, const RewriteContext& /*context*/) -> AnyPolicy {
        const Prefetch prefetch = decode_prefetch(d);
        const bool recompute = d.optional<bool>("recompute", true);
        const Bytes min_bytes = d.optional<Bytes>("min_bytes", kKiB);
        d.finish();
        return std::make_unique<capuchin_detail::Capuchin>(prefetch, recompute, min_bytes);
      }};
  return kEntry;
}

}  // namespace tidemark
