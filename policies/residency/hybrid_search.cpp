#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <numeric>
#include <utility>

#include "policies/residency/hybrid_chooser.hpp"

namespace tidemark {

Duration HybridChooser::LinkLoad::wait(std::size_t direction, Duration more) const {
  const Duration now = std::max(copies[direction] - compute[direction], Duration(0));
  return std::max(copies[direction] + more - compute[direction], Duration(0)) - now;
}

HybridChooser::LinkLoad HybridChooser::link_load(double link_share) const {
  LinkLoad link;
  for (const Occurrence& o : context_.order.at) {
    if (o.step != 0 || o.micro_batch != 0) continue;
    const Phase phase = context_.graph.operators[o.op].phase;
    if (phase == Phase::kOptimizer) continue;
    link.compute[phase == Phase::kBackward || o.recompute ? 1 : 0] += context_.durations[o.op];
  }
  for (Duration& time : link.compute)
    time = Duration(std::llround(static_cast<double>(time.count()) * link_share));
  return link;
}

std::optional<HybridChooser::Choice> HybridChooser::cheapest_at(Position peak, const LinkLoad& link,
                                                                const ResidencyPlan& plan,
                                                                GreedyRecompute& recompute) const {
  std::optional<Choice> best;
  double best_cost = std::numeric_limits<double>::infinity();
  double best_spared = -1;
  for (std::size_t i = 0; i < sites_.size(); ++i) {
    const Site& site = sites_[i];
    if (choices_[i] != HybridChoice::kKeep) continue;
    const auto live = std::find_if(site.gaps.begin(), site.gaps.end(), [&](const SavedGap& g) {
      return g.release < peak && g.to > peak;
    });
    if (live == site.gaps.end()) continue;
    Duration& again = recompute.cost[i];
    if (again < Duration(0)) {
      const std::size_t before = recompute.repeated.size();
      again = recompute.allowed ? recompute_cost(plan, site, recompute.repeated, true)
                                : Duration::max();
      recompute.repeated.shrink(before);
    }
    const Duration free = site.free[static_cast<std::size_t>(live - site.gaps.begin())];
    const Duration moved =
        (link.wait(0, site.copy_out) + link.wait(1, site.copy_in) + std::max(-free, Duration(0))) *
        context_.order.micro_batches;
    const auto bytes = static_cast<double>(site.bytes.count);
    const double cost = static_cast<double>(std::min(moved, again).count()) / bytes;
    // Spare time of the link goes to the values that are dearest to recompute.
    const double spared = static_cast<double>(again.count()) / bytes;
    if (cost > best_cost || (cost == best_cost && spared <= best_spared)) continue;
    best_spared = spared;
    best_cost = cost;
    best = {.site = i, .way = moved <= again ? HybridChoice::kOffload : HybridChoice::kRecompute};
  }
  return best;
}

// While the predicted peak passes the budget, the value at the peak that costs least per byte is
// recomputed or offloaded, whichever is cheaper. Block inputs are not recomputed here: the blocks
// before them would run for every block that drops its input. An offload costs the time that its
// copies add to what links need beyond forward and backward, and the part of a copy that its own
// gap is too short for.
void HybridChooser::choose_greedily(bool recompute, double link_share) {
  ResidencyPlan plan = plan_;
  MemoryCurve curve(context_, plan);
  LinkLoad link = link_load(link_share);
  GreedyRecompute again{.allowed = recompute,
                        .cost = std::vector<Duration>(sites_.size(), Duration(-1)),
                        .repeated = Repeated(context_.order.at.size())};
  while (curve.peak() > room_) {
    const std::optional<Choice> best = cheapest_at(curve.peak_at(), link, plan, again);
    if (!best) return;
    const Site& site = sites_[best->site];
    choices_[best->site] = best->way;
    if (best->way == HybridChoice::kOffload) {
      link.copies[0] += site.copy_out;
      link.copies[1] += site.copy_in;
    }
    for (const SavedGap& gap : site.gaps) {
      curve.add(Position(gap.release.value + 1), gap.to, -gap.bytes);
      if (best->way == HybridChoice::kRecompute)
        plan.decide(gap.id, Recompute{.group = plan.add_group({})});
    }
    if (best->way != HybridChoice::kRecompute) continue;
    recompute_cost(plan, site, again.repeated, true);
    // Values that share inputs with it have become cheaper, values that read it dearer.
    const int block = site.gaps.front().needed_by;
    for (std::size_t i = 0; i < sites_.size(); ++i) {
      if (std::abs(sites_[i].gaps.front().needed_by - block) <= 1) again.cost[i] = Duration(-1);
    }
  }
}

// Recomputation takes room of its own, and so do copies in flight, which only the trial run shows.
void HybridChooser::choose_within(bool recompute, double link_share, HybridScore& best,
                                  Choices& found) {
  constexpr int kAttempts = 4;
  const Bytes whole = room_;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    std::fill(choices_.begin(), choices_.end(), HybridChoice::kKeep);
    choose_greedily(recompute, link_share);
    const HybridScore tried = score_choices();
    if (tried < best) {
      best = tried;
      found = {choices_, room_};
    }
    if (tried.over == Bytes(0) || tried.over == kImpossible) break;
    room_ = std::max(room_ - tried.over, Bytes(0));
  }
  room_ = whole;
}

void HybridChooser::choose_best(bool recompute) {
  Choices found{choices_, room_};
  HybridScore best = score_choices();
  choose_within(false, 1, best, found);
  // Copies come in bursts, so a link that is busy all the time makes compute wait.
  for (double share : {1.0, 0.75, 0.5, 0.25, 0.0}) {
    if (recompute) choose_within(true, share, best, found);
  }
  choices_ = std::move(found.of_sites);
  room_ = found.room;
}

// Changes one choice at a time, largest values first, and keeps the change if the trial run is
// better.
void HybridChooser::improve(int tries) {
  if (context_.trial == nullptr || tries == 0) return;
  std::vector<std::size_t> order(sites_.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return sites_[a].bytes > sites_[b].bytes; });
  HybridScore best = score_choices();
  for (bool better = true; better && tries > 0;) {
    better = false;
    for (std::size_t i : order) {
      const HybridChoice before = choices_[i];
      HybridChoice chosen = before;
      for (HybridChoice other :
           {HybridChoice::kKeep, HybridChoice::kOffload, HybridChoice::kRecompute}) {
        if (other == before || tries-- <= 0) continue;
        choices_[i] = other;
        const std::optional<HybridScore> tried = score_if_better(best);
        if (!tried) continue;
        best = *tried;
        chosen = other;
        better = true;
      }
      choices_[i] = chosen;
    }
  }
}

void HybridChooser::search(std::size_t site, Duration recomputed, const Repeated& repeated,
                           HybridScore& best, Choices& found) {
  // Compute alone takes this long in the last step; nothing below can be faster.
  if (best.over == Bytes(0) && recomputed >= best.step) return;
  if (site == sites_.size()) {
    // Choices that take more than the curve predicts leave and come back for less room, once.
    const Bytes whole = room_;
    for (int attempt = 0; attempt < 2; ++attempt) {
      ResidencyPlan plan = plan_;
      if (!apply(plan) || cannot_beat(best, plan)) break;
      const HybridScore tried = score(plan);
      if (tried < best) {
        best = tried;
        found = {choices_, room_};
      }
      if (tried.over == Bytes(0)) break;
      room_ = std::max(room_ - tried.over, Bytes(0));
    }
    room_ = whole;
    return;
  }
  for (HybridChoice choice :
       {HybridChoice::kKeep, HybridChoice::kOffload, HybridChoice::kRecompute}) {
    Duration cost = recomputed;
    Repeated with = repeated;
    if (choice == HybridChoice::kRecompute) {
      const Duration again = recompute_cost(plan_, sites_[site], with, false);
      if (again == Duration::max()) continue;
      cost += again;
    }
    choices_[site] = choice;
    search(site + 1, cost, with, best, found);
  }
  choices_[site] = HybridChoice::kKeep;
}

// Branch and bound over all choices, each judged by its trial run.
void HybridChooser::search_all() {
  HybridScore best = score_choices();  // score of keeping everything
  Choices found{choices_, room_};
  search(0, compute_, Repeated(context_.order.at.size()), best, found);
  choices_ = std::move(found.of_sites);
  room_ = found.room;
}

}  // namespace tidemark
