#include "policies/residency/hybrid_chooser.hpp"

#include <algorithm>
#include <functional>
#include <set>
#include <utility>
#include <variant>

#include "policies/residency/checkpoint.hpp"
#include "policies/residency/parts_of_hybrid.hpp"
#include "policies/residency/swap_window.hpp"

namespace tidemark {

namespace hybrid_chooser_detail {
namespace {

constexpr int kBlocksTried = 12;  // numbers of whole blocks that are tried

}  // namespace
}  // namespace hybrid_chooser_detail

HybridScore HybridChooser::score(const ResidencyPlan& plan) {
  if (context_.trial == nullptr) {
    return {.over = std::max(MemoryCurve(context_, plan).peak() - budget_, Bytes(0))};
  }
  const auto [tried, is_new] = tried_.emplace(additions(plan), HybridScore{});
  if (is_new) {
    const TrialFigures figures = context_.trial->run(plan);
    const Bytes peak = prefetch_.budget ? figures.peak_live : figures.peak_reserved;
    tried->second = {.over = std::max(peak - budget_, Bytes(0)), .step = figures.step};
  }
  return tried->second;
}

HybridScore HybridChooser::score_choices() {
  ResidencyPlan tried = plan_;
  if (!apply(tried)) return {.over = kImpossible};
  return score(tried);
}

std::optional<HybridScore> HybridChooser::score_if_better(const HybridScore& best) {
  ResidencyPlan tried = plan_;
  if (!apply(tried) || cannot_beat(best, tried)) return std::nullopt;
  const HybridScore found = score(tried);
  return found < best ? std::optional(found) : std::nullopt;
}

// Returns the decisions that the plan adds to those of the policies before. Different choices may
// have the same ones, for example if a value that leaves could stay all along.
std::vector<std::uint32_t> HybridChooser::additions(const ResidencyPlan& plan) const {
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

// Whether a plan cannot beat `best`: the compute of a step takes its time whatever hides behind it.
bool HybridChooser::cannot_beat(const HybridScore& best, const ResidencyPlan& plan) const {
  if (best.over > Bytes(0) || context_.trial == nullptr) return false;
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

bool HybridChooser::apply(ResidencyPlan& plan) const {
  // Recipes must not count on values that are to be dropped too.
  ResidencyPlan marked = plan;
  for (std::size_t i = 0; i < sites_.size(); ++i) {
    if (choices_[i] != HybridChoice::kRecompute) continue;
    for (const SavedGap& gap : sites_[i].gaps)
      marked.decide(gap.id, Recompute{.group = marked.add_group({})});
  }
  std::vector<Recomputed> values;
  for (std::size_t i = 0; i < sites_.size(); ++i) {
    if (choices_[i] != HybridChoice::kRecompute) continue;
    for (const SavedGap& gap : sites_[i].gaps) {
      std::optional<RecomputeRecipe> recipe = recipe_of(context_, marked, gap);
      if (!recipe) return false;
      values.push_back({gap, std::move(*recipe)});
    }
  }
  decide_recomputes(context_, values, plan);
  MemoryCurve curve(context_, plan);
  std::vector<Departure> departures;
  for (std::size_t i = 0; i < sites_.size(); ++i) {
    if (choices_[i] != HybridChoice::kOffload) continue;
    for (const SavedGap& gap : sites_[i].gaps) {
      Departure d = swap_window(context_, starts_, curve, gap, room_);
      if (!frees_memory(d)) {
        // Within the budget at that time already: it leaves at once, for values that come back
        // later.
        d.release_at = Position(gap.release.value + 1);
        d.fetch_at = gap.to;
      }
      take_off(d, curve);
      departures.push_back(d);
    }
  }
  Prefetch prefetch = prefetch_;
  prefetch.budget = room_;
  place_fetches(context_, plan, prefetch, departures);
  decide_offloads(context_, departures, plan);
  return true;
}

void HybridChooser::apply_best(bool recompute, ResidencyPlan& plan) {
  if (context_.trial == nullptr) {
    apply(plan);
    return;
  }
  using Make = std::function<void(ResidencyPlan&)>;
  std::vector<Make> ways{[&](ResidencyPlan& made) { apply(made); }};
  ways.emplace_back(
      [&](ResidencyPlan& made) { plan_belady(context_, prefetch_, min_bytes_, made); });
  Prefetch own = prefetch_;
  own.rule = PrefetchRule::kOwn;
  ways.emplace_back(
      [&](ResidencyPlan& made) { plan_capuchin(context_, own, false, min_bytes_, made); });
  if (recompute) {
    ways.emplace_back(
        [&](ResidencyPlan& made) { plan_capuchin(context_, own, true, min_bytes_, made); });
  }
  // Whole blocks, the first of them: what checkpointing in code does.
  const std::vector<BlockRegion> blocks =
      recompute ? block_segments(context_, 1) : std::vector<BlockRegion>();
  const int count = blocks.empty() ? 0 : context_.graph.blocks;
  const int step = std::max(1, count / hybrid_chooser_detail::kBlocksTried);
  for (int first = 1; first <= count; first += step) {
    ways.emplace_back([&, first](ResidencyPlan& made) {
      for (const BlockRegion& block : blocks) {
        if (block.first_block < first)
          recompute_segment(context_, block, made, {.code = CheckpointCode::kHooks});
      }
    });
  }
  const Make* best_way = nullptr;
  HybridScore best;
  for (const Make& way : ways) {
    ResidencyPlan made = plan_;
    way(made);
    const HybridScore tried = score(made);
    if (best_way != nullptr && tried >= best) continue;
    best = tried;
    best_way = &way;
  }
  (*best_way)(plan);
}

// Returns the compute time of the last step for the operators that are not in `repeated` yet, and
// adds them to it; max() where the value cannot be recomputed, or not from within the block that
// needs it.
Duration HybridChooser::recompute_cost(const ResidencyPlan& plan, const Site& site,
                                       Repeated& repeated, bool within_block) const {
  Duration cost{};
  for (const SavedGap& gap : site.gaps) {
    // Micro-batches run the same forward.
    const Occurrence& from = context_.order.at[gap.from];
    if (from.step + 1 != context_.order.steps || from.micro_batch != 0) continue;
    const std::optional<RecomputeRecipe> recipe = recipe_of(context_, plan, gap);
    if (!recipe) return Duration::max();
    for (Position p : recipe->positions) {
      if (within_block && context_.block_at(p) != context_.block_at(gap.to)) return Duration::max();
      if (repeated.insert(p)) cost += context_.durations[context_.order.at[p].op];
    }
  }
  return cost * context_.order.micro_batches;
}

}  // namespace tidemark
