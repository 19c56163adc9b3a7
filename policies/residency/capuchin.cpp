#include <algorithm>
#include <cstdlib>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include "policies/residency/entries.hpp"
#include "policies/residency/parts_of_hybrid.hpp"
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
  // Compute time of recomputing it beside what is recomputed already; max(): it cannot be, or not
  // from within the block that needs it.
  Duration again{};
  bool searched = false;  // `again` is known
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

// The values that are recomputed. Those that one block's backward needs are recomputed together
// (Capuchin's collective recomputation), so that each operator of it counts once.
class Recomputation {
 public:
  Recomputation(const PolicyContext& context, const ResidencyPlan& plan)
      : context_(context), marked_(plan) {}

  [[nodiscard]] Duration cost(const SavedGap& gap) const {
    const std::optional<RecomputeRecipe> recipe = recipe_within_block(gap);
    if (!recipe) return Duration::max();
    const auto known = repeated_.find(place_of(gap));
    Duration cost{};
    for (const Position p : recipe->positions) {
      const bool repeated = known != repeated_.end() && known->second.contains(p);
      if (!repeated) cost += context_.durations[context_.order.at[p].op];
    }
    return cost;
  }
  void add(const SavedGap& gap) {
    const std::optional<RecomputeRecipe> recipe = recipe_within_block(gap);
    if (context_.block_at(gap.to) != kNoBlock)
      repeated_[place_of(gap)].insert(recipe->positions.begin(), recipe->positions.end());
    marked_.decide(gap.id, Recompute{.group = marked_.add_group({})});
    gaps_.push_back(gap);
  }
  void decide(ResidencyPlan& plan) const {
    std::vector<Recomputed> values;
    for (const SavedGap& gap : gaps_) {
      // Later decisions may have dropped what the recipe began with.
      std::optional<RecomputeRecipe> recipe = recipe_of(context_, marked_, gap);
      if (recipe) values.push_back({gap, std::move(*recipe)});
    }
    decide_recomputes(context_, values, plan);
  }

 private:
  [[nodiscard]] std::pair<std::size_t, int> place_of(const SavedGap& gap) const {
    return {gap.micro_batch, context_.block_at(gap.to)};
  }
  // A recipe that reaches into another block would run that block for each block behind it.
  [[nodiscard]] std::optional<RecomputeRecipe> recipe_within_block(const SavedGap& gap) const {
    std::optional<RecomputeRecipe> recipe = recipe_of(context_, marked_, gap);
    const int block = context_.block_at(gap.to);
    const bool inside =
        recipe && std::all_of(recipe->positions.begin(), recipe->positions.end(),
                              [&](Position p) { return context_.block_at(p) == block; });
    return inside ? recipe : std::nullopt;
  }

  const PolicyContext& context_;
  ResidencyPlan marked_;  // with a decision on each recomputed value: recipes do not count on them
  std::map<std::pair<std::size_t, int>, std::set<Position>> repeated_;
  std::vector<SavedGap> gaps_;
};

// Returns the value live at the peak whose recomputation saves most memory per second; nullptr if
// none saves more than `swap`, which makes compute wait for `wait`.
Candidate* better_recomputed(const Recomputation& recomputation, const Candidate& swap,
                             Duration wait, Position peak, std::vector<Candidate>& candidates) {
  Candidate* recomputed = nullptr;
  double best = saving_per_second(swap.gap.bytes, wait);
  for (Candidate& c : candidates) {
    if (!live_at(c, peak)) continue;
    if (!c.searched) c.again = recomputation.cost(c.gap);
    c.searched = true;
    if (c.again == Duration::max() || saving_per_second(c.gap.bytes, c.again) <= best) continue;
    best = saving_per_second(c.gap.bytes, c.again);
    recomputed = &c;
  }
  return recomputed;
}

// Costs change with the values that are recomputed in the same block and beside it.
void forget_costs(const SavedGap& chosen, std::vector<Candidate>& candidates) {
  for (Candidate& c : candidates) {
    const bool near = std::abs(c.gap.needed_by - chosen.needed_by) <= 1;
    if (near && c.gap.micro_batch == chosen.micro_batch) c.searched = false;
  }
}

void feed_back(const PolicyContext& context, const std::vector<Duration>& starts,
               const MemoryCurve& curve, Bytes budget, std::vector<Departure>& departures) {
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

// While the predicted peak passes the budget, of the values that are live at it:
//   - the one with the largest free time is swapped if compute waits for none of its copies, on the
//     link as the swaps before it leave it;
//   - else the better of swapping it and recomputing the value with the largest memory saving per
//     second (MSPS = bytes / recompute time), by bytes saved per second lost.
// A swap comes back at the latest operator that hides the copy, not inside the peak. Feedback: a
// copy that would still arrive late on the busy link is triggered earlier by 5 % of its time,
// repeatedly.
void relieve(const PolicyContext& context, const Prefetch& fetching, bool recompute,
             Bytes min_bytes, Bytes budget, ResidencyPlan& plan) {
  const std::vector<Duration> starts = predicted_starts(context);
  MemoryCurve curve(context, plan);
  std::vector<Candidate> candidates;
  for (const SavedGap& gap : saved_gaps(context, min_bytes)) {
    if (plan.decided(gap.id)) continue;
    candidates.push_back({.gap = gap, .free = free_time(context, starts, gap)});
  }
  Recomputation recomputation(context, plan);
  std::vector<Departure> departures;
  CopyQueues queues(context, starts);
  while (curve.peak() > budget) {
    const Position peak = curve.peak_at();
    Candidate* const swap = most_free(candidates, peak);
    if (swap == nullptr) break;  // nothing at the peak can leave
    const Departure departure = swap_window(context, starts, curve, swap->gap, budget);
    const Duration wait = recompute ? queues.added_wait(departure) : Duration(0);
    Candidate* const recomputed =
        wait > Duration(0) ? better_recomputed(recomputation, *swap, wait, peak, candidates)
                           : nullptr;
    Candidate& chosen = recomputed != nullptr ? *recomputed : *swap;
    chosen.taken = true;
    if (recomputed != nullptr) {
      recomputation.add(chosen.gap);
      curve.add(Position(chosen.gap.release.value + 1), chosen.gap.to, -chosen.gap.bytes);
      if (context.block_at(chosen.gap.to) != kNoBlock) forget_costs(chosen.gap, candidates);
      continue;
    }
    take_off(departure, curve);
    departures.push_back(departure);
    if (recompute) queues.add(departure);
  }
  if (fetching.rule == PrefetchRule::kOwn) {
    feed_back(context, starts, curve, budget, departures);
  } else {
    Prefetch prefetch = fetching;
    prefetch.budget = budget;
    place_fetches(context, plan, prefetch, departures);
  }
  recomputation.decide(plan);
  decide_offloads(context, departures, plan);
}

class Capuchin final : public PrefetchingPolicy {
 public:
  Capuchin(Prefetch prefetch, bool recompute, Bytes min_bytes)
      : PrefetchingPolicy(prefetch), recompute_(recompute), min_bytes_(min_bytes) {}
  [[nodiscard]] std::string_view name() const override { return "capuchin"; }
  void plan_recompute(const PolicyContext& context, ResidencyPlan& plan) const override {
    if (recompute_) plan_capuchin(context, fetching(), true, min_bytes_, plan);
  }
  // The memory that recomputation itself adds is known only in this pass.
  void plan_movement(const PolicyContext& context, ResidencyPlan& plan) const override {
    plan_capuchin(context, fetching(), false, min_bytes_, plan);
  }

 private:
  bool recompute_;
  Bytes min_bytes_;
};

}  // namespace
}  // namespace capuchin_detail

void plan_capuchin(const PolicyContext& context, const Prefetch& fetching, bool recompute,
                   Bytes min_bytes, ResidencyPlan& plan) {
  // Recomputation takes room of its own, which only trial runs show.
  constexpr int kAttemptsWithRecomputation = 8;
  constexpr int kAttempts = 4;
  arrange_within(
      context, fetching.budget, plan,
      [&](Bytes budget, ResidencyPlan& tried) {
        capuchin_detail::relieve(context, fetching, recompute, min_bytes, budget, tried);
      },
      recompute ? kAttemptsWithRecomputation : kAttempts);
}

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
