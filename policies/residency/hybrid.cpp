#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "graph/core/errors.hpp"
#include "policies/residency/entries.hpp"
#include "policies/residency/hybrid_sites.hpp"
#include "policies/residency/prefetch.hpp"
#include "policies/residency/recipe.hpp"
#include "policies/residency/swap_window.hpp"

namespace tidemark {
namespace {

enum class Choice : std::uint8_t { kKeep, kRecompute, kOffload };

// A plan judged: first by whether it fits, then by time, or by memory where nothing fits.
struct Score {
  std::int64_t over = 0;  // bytes above the budget
  Duration step{};
  friend auto operator<=>(const Score&, const Score&) = default;
};

class Chooser {
 public:
  Chooser(const PolicyContext& context, const ResidencyPlan& plan, const Prefetch& prefetch,
          Bytes min_bytes)
      : context_(context),
        plan_(plan),
        prefetch_(prefetch),
        budget_(prefetch.budget.value_or(device_budget(context)).count),
        starts_(predicted_starts(context)),
        compute_(compute_of_last_step(context)),
        sites_(sites_of(context, plan, starts_, min_bytes)),
        choices_(sites_.size(), Choice::kKeep) {}

  [[nodiscard]] std::size_t size() const { return sites_.size(); }
  [[nodiscard]] std::int64_t budget() const { return budget_; }
  [[nodiscard]] bool fits_as_it_is() {
    return MemoryCurve(context_, plan_).peak() <= budget_ && score(plan_).over == 0;
  }
  // `link_share`: of the compute time, that copies are counted on to hide behind. `target`: live
  // bytes, less than the budget where recomputation needs room.
  void choose_greedily(bool recompute, double link_share, std::int64_t target);
  // Of the greedy choices without recomputation and with, for several shares of the link.
  void choose_best();
  void improve(int tries);
  void search_all();
  // Writes the choices into a plan; false where a value cannot be computed again.
  bool apply(ResidencyPlan& plan) const;

 private:
  [[nodiscard]] Score score(const ResidencyPlan& plan);
  [[nodiscard]] std::vector<std::uint32_t> additions(const ResidencyPlan& plan) const;
  [[nodiscard]] Score score_choices();
  // Not replayed where it cannot be better than `best`: none then.
  [[nodiscard]] std::optional<Score> score_if_better(const Score& best);
  [[nodiscard]] bool cannot_beat(const Score& best, const ResidencyPlan& plan) const;
  Duration recompute_cost(const ResidencyPlan& plan, const Site& site, Repeated& repeated,
                          bool within_block) const;
  void recompute_chosen(ResidencyPlan& plan, const std::vector<Recipe>& recipes) const;
  void search(std::size_t site, Duration recomputed, const Repeated& repeated, Score& best,
              std::vector<Choice>& found);

  const PolicyContext& context_;
  const ResidencyPlan& plan_;  // of the policies before
  const Prefetch& prefetch_;
  std::int64_t budget_;
  std::vector<Duration> starts_;
  Duration compute_{};  // on the device, of the last step, without what is computed again
  std::vector<Site> sites_;
  std::vector<Choice> choices_;
  std::map<std::vector<std::uint32_t>, Score> replayed_;  // by additions()
};

Score Chooser::score(const ResidencyPlan& plan) {
  if (context_.trial == nullptr) {
    return {.over = std::max<std::int64_t>(MemoryCurve(context_, plan).peak() - budget_, 0)};
  }
  const auto [replayed, is_new] = replayed_.emplace(additions(plan), Score{});
  if (is_new) {
    const TrialFigures figures = context_.trial->run(plan);
    const std::int64_t peak = prefetch_.budget ? figures.peak_live : figures.peak_reserved;
    replayed->second = {.over = std::max<std::int64_t>(peak - budget_, 0), .step = figures.step};
  }
  return replayed->second;
}

Score Chooser::score_choices() {
  ResidencyPlan tried = plan_;
  if (!apply(tried)) return {.over = std::numeric_limits<std::int64_t>::max()};
  return score(tried);
}

std::optional<Score> Chooser::score_if_better(const Score& best) {
  ResidencyPlan tried = plan_;
  if (!apply(tried) || cannot_beat(best, tried)) return std::nullopt;
  const Score found = score(tried);
  return found < best ? std::optional(found) : std::nullopt;
}

// What the plan adds to that of the policies before: different choices may come to the same, as
// where what leaves could stay all along.
std::vector<std::uint32_t> Chooser::additions(const ResidencyPlan& plan) const {
  std::vector<std::uint32_t> all;
  for (GapId gap : ids_of(plan.decisions())) {
    if (plan_.decided(gap)) continue;
    if (const auto* offload = std::get_if<Offload>(&plan.decision(gap))) {
      all.insert(all.end(), {gap.value, offload->fetch_at.value, offload->release_at.value});
    } else if (const auto* recompute = std::get_if<Recompute>(&plan.decision(gap))) {
      all.insert(all.end(), {gap.value, recompute->group.value});
    }
  }
  for (const RecomputeGroup& group : plan.groups()) {
    all.push_back(static_cast<std::uint32_t>(group.recipe.size()));
    for (Position p : group.recipe)
      all.push_back(p.value);
  }
  return all;
}

// The compute of a step takes its time whatever hides behind it.
bool Chooser::cannot_beat(const Score& best, const ResidencyPlan& plan) const {
  if (best.over > 0 || context_.trial == nullptr) return false;
  Duration again{};
  for (GroupId id : ids_of(plan.groups())) {
    if (plan_.groups().contains(id)) continue;
    for (Position p : plan.groups()[id].recipe) {
      const Occurrence& o = context_.order.at[p];
      if (o.step + 1 == context_.order.steps) again += context_.durations[o.op];
    }
  }
  return compute_ + again >= best.step;
}

bool Chooser::apply(ResidencyPlan& plan) const {
  // Recipes must not count on values that are to be dropped too.
  ResidencyPlan marked = plan;
  for (std::size_t i = 0; i < sites_.size(); ++i) {
    if (choices_[i] != Choice::kRecompute) continue;
    for (const SavedGap& gap : sites_[i].gaps)
      marked.decide(gap.id, Recompute{.group = marked.add_group({})});
  }
  std::vector<Recipe> recipes;
  for (std::size_t i = 0; i < sites_.size(); ++i) {
    if (choices_[i] != Choice::kRecompute) continue;
    for (const SavedGap& gap : sites_[i].gaps) {
      std::optional<Recipe> recipe = recipe_of(context_, marked, gap);
      if (!recipe) return false;
      recipes.push_back(std::move(*recipe));
    }
  }
  recompute_chosen(plan, recipes);
  MemoryCurve curve(context_, plan);
  std::vector<Departure> departures;
  for (std::size_t i = 0; i < sites_.size(); ++i) {
    if (choices_[i] != Choice::kOffload) continue;
    for (const SavedGap& gap : sites_[i].gaps) {
      Departure d = swap_window(context_, starts_, curve, gap, budget_);
      if (!frees_memory(d)) {
        // Within the budget at that time already: it leaves at once, for what comes back later.
        d.release_at = Position(gap.release.value + 1);
        d.fetch_at = gap.to;
      }
      take_off(d, curve);
      departures.push_back(d);
    }
  }
  Prefetch prefetch = prefetch_;
  prefetch.budget = Bytes(budget_);
  place_fetches(context_, plan, prefetch, departures);
  decide_offloads(context_, departures, plan);
  return true;
}

// Values that one block's backward needs are computed again together: they share their sources.
void Chooser::recompute_chosen(ResidencyPlan& plan, const std::vector<Recipe>& recipes) const {
  struct Together {
    std::set<Position> recipe;
    std::vector<GapId> gaps;
  };
  std::map<std::pair<std::size_t, int>, Together> groups;
  auto recipe = recipes.begin();
  for (std::size_t i = 0; i < sites_.size(); ++i) {
    if (choices_[i] != Choice::kRecompute) continue;
    for (const SavedGap& gap : sites_[i].gaps) {
      Together& group = groups[{gap.round, context_.block_at(gap.to)}];
      group.recipe.insert(recipe->positions.begin(), recipe->positions.end());
      group.gaps.push_back(gap.id);
      ++recipe;
    }
  }
  for (const auto& [where, group] : groups) {
    const GroupId id =
        plan.add_group({.recipe = {group.recipe.begin(), group.recipe.end()}, .kept = {}});
    for (GapId gap : group.gaps)
      plan.decide(gap, Recompute{.group = id});
  }
}

// Compute time of the last step for what is not in `repeated` yet, which it joins; max() where the
// value cannot be computed again, or not from within the block that needs it.
Duration Chooser::recompute_cost(const ResidencyPlan& plan, const Site& site, Repeated& repeated,
                                 bool within_block) const {
  Duration cost{};
  for (const SavedGap& gap : site.gaps) {
    // Micro-batches run the same forward.
    const Occurrence& from = context_.order.at[gap.from];
    if (from.step + 1 != context_.order.steps || from.micro_batch != 0) continue;
    const std::optional<Recipe> recipe = recipe_of(context_, plan, gap);
    if (!recipe) return Duration::max();
    for (Position p : recipe->positions) {
      if (within_block && context_.block_at(p) != context_.block_at(gap.to)) return Duration::max();
      if (repeated.insert(p)) cost += context_.durations[context_.order.at[p].op];
    }
  }
  return cost * context_.order.micro_batches;
}

// While the predicted peak passes the budget, the value at the peak that costs least per byte goes
// the cheaper of its two ways. Block inputs are not computed again here: the blocks before them
// would run for every block that drops its input. An offload costs what its copies add to the time
// that links need beyond forward and backward, and what its own gap is too short for.
void Chooser::choose_greedily(bool recompute, double link_share, std::int64_t target) {
  ResidencyPlan plan = plan_;
  MemoryCurve curve(context_, plan);
  std::array<Duration, 2> compute{};  // of the first micro-batch: forward, backward
  for (const Occurrence& o : context_.order.at) {
    if (o.step != 0 || o.micro_batch != 0) continue;
    const Phase phase = context_.graph.operators[o.op].phase;
    if (phase == Phase::kOptimizer) continue;
    compute[phase == Phase::kBackward || o.recompute ? 1 : 0] += context_.durations[o.op];
  }
  for (Duration& time : compute)
    time = Duration(std::llround(static_cast<double>(time.count()) * link_share));
  std::array<Duration, 2> copies{};
  const auto wait = [&](std::size_t direction, Duration more) {
    const Duration now = std::max(copies[direction] - compute[direction], Duration(0));
    return std::max(copies[direction] + more - compute[direction], Duration(0)) - now;
  };
  std::vector<Duration> again(sites_.size(), Duration(-1));  // -1: not looked at
  Repeated repeated(context_.order.at.size());
  while (curve.peak() > target) {
    const Position peak = curve.peak_at();
    std::size_t best = sites_.size();
    Choice way = Choice::kKeep;
    double best_cost = std::numeric_limits<double>::infinity();
    double best_spared = -1;
    for (std::size_t i = 0; i < sites_.size(); ++i) {
      const Site& site = sites_[i];
      if (choices_[i] != Choice::kKeep) continue;
      const auto live = std::find_if(site.gaps.begin(), site.gaps.end(), [&](const SavedGap& g) {
        return g.release < peak && g.to > peak;
      });
      if (live == site.gaps.end()) continue;
      if (again[i] < Duration(0)) {
        const std::size_t before = repeated.size();
        again[i] = recompute ? recompute_cost(plan, site, repeated, true) : Duration::max();
        repeated.shrink(before);
      }
      const Duration free = site.free[static_cast<std::size_t>(live - site.gaps.begin())];
      const Duration moved =
          (wait(0, site.copy_out) + wait(1, site.copy_in) + std::max(-free, Duration(0))) *
          context_.order.micro_batches;
      const auto bytes = static_cast<double>(site.bytes.count);
      const double cost = static_cast<double>(std::min(moved, again[i]).count()) / bytes;
      // Where the link has time to spare it goes to what is dearest to compute again.
      const double spared = static_cast<double>(again[i].count()) / bytes;
      if (cost > best_cost || (cost == best_cost && spared <= best_spared)) continue;
      best_spared = spared;
      best_cost = cost;
      best = i;
      way = moved <= again[i] ? Choice::kOffload : Choice::kRecompute;
    }
    if (best == sites_.size()) return;
    choices_[best] = way;
    if (way == Choice::kOffload) {
      copies[0] += sites_[best].copy_out;
      copies[1] += sites_[best].copy_in;
    }
    for (const SavedGap& gap : sites_[best].gaps) {
      curve.add(Position(gap.release.value + 1), gap.to, -gap.bytes.count);
      if (way == Choice::kRecompute) plan.decide(gap.id, Recompute{.group = plan.add_group({})});
    }
    if (way != Choice::kRecompute) continue;
    recompute_cost(plan, sites_[best], repeated, true);
    // What shares its sources has become cheaper, what reads it dearer.
    const int block = sites_[best].gaps.front().needed_by;
    for (std::size_t i = 0; i < sites_.size(); ++i) {
      if (std::abs(sites_[i].gaps.front().needed_by - block) <= 1) again[i] = Duration(-1);
    }
  }
}

void Chooser::choose_best() {
  choose_greedily(false, 1, budget_);
  std::vector<Choice> found = choices_;
  Score best = score_choices();
  // Copies come in bursts, so a link that is busy all the time makes compute wait.
  for (double share : {1.0, 0.75, 0.5, 0.25, 0.0}) {
    // What is computed again takes room of its own, which only the replay tells.
    std::int64_t target = budget_;
    for (int attempt = 0; attempt < 3; ++attempt) {
      std::fill(choices_.begin(), choices_.end(), Choice::kKeep);
      choose_greedily(true, share, target);
      const Score tried = score_choices();
      if (tried < best) {
        best = tried;
        found = choices_;
      }
      if (tried.over == 0) break;
      if (tried.over == std::numeric_limits<std::int64_t>::max()) break;
      target -= tried.over;
    }
  }
  choices_ = std::move(found);
}

// Changes one choice at a time, largest values first, and keeps what replays better.
void Chooser::improve(int tries) {
  if (context_.trial == nullptr || tries == 0) return;
  std::vector<std::size_t> order(sites_.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return sites_[a].bytes > sites_[b].bytes; });
  Score best = score_choices();
  for (bool better = true; better && tries > 0;) {
    better = false;
    for (std::size_t i : order) {
      const Choice before = choices_[i];
      Choice chosen = before;
      for (Choice other : {Choice::kKeep, Choice::kOffload, Choice::kRecompute}) {
        if (other == before || tries-- <= 0) continue;
        choices_[i] = other;
        const std::optional<Score> tried = score_if_better(best);
        if (!tried) continue;
        best = *tried;
        chosen = other;
        better = true;
      }
      choices_[i] = chosen;
    }
  }
}

void Chooser::search(std::size_t site, Duration recomputed, const Repeated& repeated, Score& best,
                     std::vector<Choice>& found) {
  // Compute alone takes this long in the last step; nothing below can be faster.
  if (best.over == 0 && recomputed >= best.step) return;
  if (site == sites_.size()) {
    const std::optional<Score> tried = score_if_better(best);
    if (tried) {
      best = *tried;
      found = choices_;
    }
    return;
  }
  for (Choice choice : {Choice::kKeep, Choice::kOffload, Choice::kRecompute}) {
    Duration cost = recomputed;
    Repeated with = repeated;
    if (choice == Choice::kRecompute) {
      const Duration again = recompute_cost(plan_, sites_[site], with, false);
      if (again == Duration::max()) continue;
      cost += again;
    }
    choices_[site] = choice;
    search(site + 1, cost, with, best, found);
  }
  choices_[site] = Choice::kKeep;
}

// Branch and bound over all choices, each judged by its replay.
void Chooser::search_all() {
  Score best = score_choices();  // of keeping everything
  std::vector<Choice> found = choices_;
  search(0, compute_, Repeated(context_.order.at.size()), best, found);
  choices_ = found;
}

// Round 1 chooses between all three; round 2 offloads what recomputation has brought back above the
// budget.
class Hybrid final : public ResidencyPolicy, public Budgeted {
 public:
  struct Options {
    bool exhaustive = false;
    int tries = 64;
    Bytes min_bytes;
  };
  Hybrid(Prefetch prefetch, Options options) : prefetch_(prefetch), options_(options) {}
  [[nodiscard]] std::string_view name() const override { return "hybrid"; }
  [[nodiscard]] std::optional<Bytes> budget() const override { return prefetch_.budget; }

  void plan_recompute(const PolicyContext& context, ResidencyPlan& plan) const override {
    const ResidencyPlan before = plan;
    Chooser chooser(context, before, prefetch_, options_.min_bytes);
    if (options_.exhaustive) {
      if (chooser.size() > kMostSites) {
        throw UserError({}, "policies.hybrid.search",
                        fmt::format("an exhaustive search takes at most {} values, here are {}; "
                                    "raise min_bytes or use search: greedy",
                                    kMostSites, chooser.size()));
      }
      chooser.search_all();
    } else {
      if (chooser.fits_as_it_is()) return;
      chooser.choose_best();
      chooser.improve(options_.tries);
    }
    chooser.apply(plan);
  }

  void plan_movement(const PolicyContext& context, ResidencyPlan& plan) const override {
    if (options_.exhaustive) return;
    const ResidencyPlan before = plan;
    Chooser chooser(context, before, prefetch_, options_.min_bytes);
    if (chooser.fits_as_it_is()) return;
    chooser.choose_greedily(false, 1, chooser.budget());
    chooser.apply(plan);
  }

 private:
  static constexpr std::size_t kMostSites = 10;  // 3^10 replays

  Prefetch prefetch_;
  Options options_;
};

constexpr std::array<std::string_view, 2> kSearches{"greedy", "exhaustive"};

}  // namespace

const PolicyEntry& hybrid_entry() {
  static constexpr PolicyEntry kEntry{
      .name = "hybrid",
      .kind = "residency",
      .summary =
          "for each saved tensor keep, recompute or offload, whichever costs the step least under "
          "the `budget`; choices are improved by `tries` replays, or all are tried (search: "
          "exhaustive, small graphs)",
      .source = "Beaumont et al. 2021, Efficient Combination of Rematerialization and Offloading",
      .decode = [](const Decoder& d, const RewriteContext& /*context*/) -> AnyPolicy {
        const Prefetch prefetch = decode_prefetch(d, "earliest");
        Hybrid::Options options;
        options.exhaustive = d.optional_word("search", kSearches, "greedy") == "exhaustive";
        options.tries = d.optional<int>("tries", 64, at_least(0));
        options.min_bytes = d.optional<Bytes>("min_bytes", kKiB);
        d.finish();
        return std::make_unique<Hybrid>(prefetch, options);
      }};
  return kEntry;
}

}  // namespace tidemark
