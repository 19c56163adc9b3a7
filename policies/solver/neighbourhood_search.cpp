#include "policies/solver/neighbourhood_search.hpp"

#include <algorithm>
#include <cmath>
#include <random>

#include "policies/remat/drop_candidates.hpp"
#include "policies/remat/schedule_editor.hpp"
#include "policies/solver/cooling_cycles.hpp"

namespace tidemark {
namespace neighbourhood_search_detail {
namespace {

using Occ = ScheduleEditor::Occ;

class NeighbourhoodSearch {
  static constexpr Occ kNone = ScheduleEditor::kNone;

 public:
  NeighbourhoodSearch(const RematProblem& problem, const Schedule& start,
                      const NeighbourhoodOptions& options)
      : problem_(problem),
        options_(options),
        rng_(options.seed),
        list_(problem, options.budget, start),
        candidates_(problem, list_, options.budget, rng_) {}

  std::optional<Solution> run() {
    noise_ = 0;
    bool fits = make_room(kInfinite);
    list_.commit();
    if (!fits && options_.anneal) fits = find_room();
    if (!fits) return std::nullopt;
    drop_all_useless();
    list_.commit();
    keep_best();
    descend();
    if (!cleaned_) {
      NeighbourhoodSearch last(problem_, *best_, options_);
      last.drop_all_useless();
      best_ = last.list_.schedule();
    }
    return evaluated(problem_, *best_);
  }

 private:
  // Shares of the extra cost that are accepted on top at the beginning and at the end of a cycle.
  static constexpr double kWarm = 0.02;
  static constexpr double kCold = 0.0002;
  static constexpr std::int64_t kCleanEvery = 50;  // iterations
  // Repeats x length, for which a plan is cleaned even after the deadline.
  static constexpr std::size_t kLateCleaning = 20'000'000;

  [[nodiscard]] bool late() {
    if ((++clock_ & 7U) != 0) return late_;
    late_ = late_ || std::chrono::steady_clock::now() > options_.deadline;
    return late_;
  }
  std::uint64_t below(std::uint64_t n) { return rng_() % n; }
  double uniform() { return static_cast<double>(rng_() >> 11) * 0x1.0p-53; }

  void keep_best() {
    if (best_ && list_.cost() >= best_cost_) return;
    best_ = list_.schedule();
    best_cost_ = list_.cost();
  }

  // --- recomputing ---

  // Returns the place of a repeat of `node` for the reader `before`; kNone where there is none.
  Occ place_for(NodeIndex node, Occ before) const {
    if (!options_.checkmate) return before;
    Occ at = before;
    for (Occ p = list_.previous(at); p != kNone && !list_.is_first(p); p = list_.previous(p)) {
      if (list_.node(p) == node) return kNone;
      if (list_.node(p) < node) break;
      at = p;
    }
    return at;
  }

  // Inserts `node` before `reader` with its missing inputs. False: there is no place or it costs
  // too much; the caller takes the changes back.
  bool compute_again(NodeIndex node, Occ reader, int depth) {
    if (problem_.once[node] || depth > 200 || ++inserted_ > 400) return false;
    if (list_.cost() + problem_.cost[node] > limit_) return false;
    const Occ at = place_for(node, reader);
    if (at == kNone) return false;
    const Occ self = list_.insert(node, at);
    // Inputs that were freed by now stay until here, or are repeated, too, if that does not fit.
    for (const NodeIndex dep : problem_.deps[node]) {
      const Occ copy = list_.copy_before(dep, self);
      if (list_.end(copy) != self) continue;  // stays for a later reader anyway
      const Occ last = last_reader_before(copy, self);
      if (list_.next(last) == self) continue;
      const bool tight = !list_.fits_between(last, self, 0);
      if (tight ? uniform() < 0.02 * noise_ : uniform() >= 0.05 * noise_) continue;
      if (!compute_again(dep, self, depth + 1)) return false;
    }
    return true;
  }
  // Returns the last reader of `copy` before `occ`, which is its last; else the copy itself.
  Occ last_reader_before(Occ copy, Occ occ) const {
    Occ last = copy;
    for (const NodeIndex reader : problem_.readers[list_.node(copy)]) {
      const Occ o = list_.copy_before(reader, occ);
      if (o != kNone && list_.precedes(last, o)) last = o;
    }
    return last;
  }

  // Drops values until the schedule fits; false when nothing helps or it costs more than `limit`.
  bool make_room(std::int64_t limit) {
    std::size_t steps = 0;
    // Now and then a drop that passes the limit is not even tried: faster by far where much has to
    // be recomputed together, but some ways to less cost begin with more.
    limit_ = below(4) == 0 ? limit : kInfinite;
    while (list_.overflow() > 0) {
      if (list_.cost() > limit || ++steps > std::size_t{50} * problem_.size() || late())
        return false;
      if (!relieve(list_.highest())) return false;
    }
    return list_.cost() <= limit;
  }

  // Applies the best drop that lessens the overflow.
  bool relieve(Occ at) {
    candidates_.find(at, noise_);
    while (const auto candidate = candidates_.take()) {
      if (late()) return false;
      const std::size_t mark = list_.mark();
      const std::int64_t before = list_.overflow();
      inserted_ = 0;
      const Occ reader = list_.reader_after(candidate->copy, at);
      if (compute_again(candidate->node, reader, 0) && list_.overflow() < before) return true;
      list_.undo_to(mark);
    }
    return false;
  }

  // --- taking repeats out ---

  // Erases a repeat and all repeats that nobody reads then.
  void erase_with_sources(Occ occ) {
    erase_stack_.assign(1, occ);
    while (!erase_stack_.empty()) {
      const Occ o = erase_stack_.back();
      erase_stack_.pop_back();
      if (!list_.exists(o) || list_.is_first(o)) continue;
      if (o != occ && !list_.read_by_nobody(o)) continue;
      sources_.clear();
      for (const NodeIndex dep : problem_.deps[list_.node(o)])
        sources_.push_back(list_.copy_before(dep, o));
      list_.erase(o);
      erase_stack_.insert(erase_stack_.end(), sources_.begin(), sources_.end());
    }
  }

  void list_repeats() {
    repeats_.clear();
    for (const Occ p : list_.order()) {
      if (!list_.is_first(p)) repeats_.push_back(p);
    }
  }

  // Removes every repeat without which the schedule still fits.
  void drop_all_useless() {
    list_repeats();
    std::vector<Occ> order = repeats_;
    for (std::size_t k = order.size(); k > 1; --k)
      std::swap(order[k - 1], order[below(k)]);
    std::size_t work = 0;
    for (const Occ occ : order) {
      if (late() && (work += list_.length()) > kLateCleaning) break;
      if (!list_.exists(occ) || list_.is_first(occ)) continue;
      try_without(occ);
    }
  }
  void try_without(Occ occ) {
    const std::size_t mark = list_.mark();
    const std::int64_t before = list_.overflow();
    erase_with_sources(occ);
    if (list_.overflow() > before) list_.undo_to(mark);
  }

  void descend() {
    std::int64_t current = list_.cost();
    CoolingCycles cycles;
    std::int64_t next_clean = 0;
    for (std::int64_t k = 0; k < options_.iterations && !late(); ++k) {
      if (best_cost_ <= options_.lower_bound) return;
      list_repeats();
      if (repeats_.empty()) return;
      noise_ = 0.2 + 1.3 * uniform();
      const std::size_t begin = list_.mark();
      ruin();
      // Threshold accepting: from warm to cold in each cycle.
      const double done = cycles.done(k);
      const double warmth = kWarm * std::pow(kCold / kWarm, done) *
                            static_cast<double>(best_cost_ - problem_.base_cost);
      const auto limit = current + static_cast<std::int64_t>(-std::log(1 - uniform()) * warmth);
      bool better = make_room(limit);
      if (better) tidy();
      better = better && list_.cost() <= limit;
      if (!better) {
        list_.undo_to(begin);
        continue;
      }
      list_.commit();
      current = list_.cost();
      if (current < best_cost_) {
        // It looks at every repeat: not each time if one improvement follows another.
        cleaned_ = k >= next_clean;
        if (cleaned_) {
          next_clean = k + kCleanEvery;
          drop_all_useless();
          list_.commit();
          current = list_.cost();
        }
        keep_best();
      }
    }
  }

  // Removes a few repeats that are near each other.
  void ruin() {
    const std::size_t wanted = 1 + below(below(4) == 0 ? 12 : 4);
    const std::size_t reach =
        below(2) == 0 ? repeats_.size() : std::max<std::size_t>(wanted * 3, 8);
    const std::size_t centre = below(repeats_.size());
    const std::size_t low = centre > reach / 2 ? centre - reach / 2 : 0;
    const std::size_t high = std::min(repeats_.size(), low + reach);
    for (std::size_t k = 0; k < wanted; ++k) {
      const Occ occ = repeats_[low + below(high - low)];
      if (list_.exists(occ) && !list_.is_first(occ)) erase_with_sources(occ);
    }
  }

  // Removes repeats that may have become useless.
  void tidy() {
    list_repeats();
    const std::size_t tries = std::min<std::size_t>(repeats_.size(), 12);
    for (std::size_t k = 0; k < tries; ++k) {
      const Occ occ = repeats_[below(repeats_.size())];
      if (list_.exists(occ) && !list_.is_first(occ)) try_without(occ);
    }
  }

  // Finds a schedule that fits from one that does not and that no single drop improves: annealing
  // on the overflow, with a little weight on the cost so that useless repeats are removed.
  bool find_room() {
    limit_ = kInfinite;
    const double weight = 0.05 * static_cast<double>(list_.overflow()) /
                          static_cast<double>(std::max<std::int64_t>(problem_.base_cost, 1));
    const auto energy = [&] {
      return static_cast<double>(list_.overflow()) + weight * static_cast<double>(list_.cost());
    };
    double current = energy();
    CoolingCycles cycles;
    for (std::int64_t k = 0; k < options_.iterations && !late(); ++k) {
      const double done = cycles.done(k);
      const double warmth = 0.1 * std::pow(0.01, done) * static_cast<double>(list_.overflow());
      list_repeats();
      noise_ = 0.5 + 4 * uniform();
      const std::size_t begin = list_.mark();
      if (!repeats_.empty() && below(3) == 0) ruin();
      if (list_.overflow() > 0) {
        if (below(2) == 0) {
          disturb();
        } else {
          relieve(list_.highest());
        }
      }
      if (list_.overflow() == 0) {
        list_.commit();
        return true;
      }
      const double next = energy();
      if (next <= current - std::log(1 - uniform()) * warmth) {
        list_.commit();
        current = next;
      } else {
        list_.undo_to(begin);
      }
    }
    return false;
  }

  // Recomputes some value that is resident but unread where memory is above the budget.
  void disturb() {
    over_.clear();
    for (const Occ p : list_.order()) {
      if (list_.memory(p) > options_.budget) over_.push_back(p);
    }
    const Occ over = over_[below(over_.size())];
    candidates_.find(over, noise_);
    if (candidates_.size() == 0) return;
    auto candidate = candidates_.take();
    for (std::size_t k = below(std::min(candidates_.size(), DropCandidates::kLikely)); k > 0; --k)
      candidate = candidates_.take();
    const std::size_t mark = list_.mark();
    inserted_ = 0;
    if (!compute_again(candidate->node, list_.reader_after(candidate->copy, over), 0))
      list_.undo_to(mark);
  }

  const RematProblem& problem_;
  const NeighbourhoodOptions& options_;
  std::mt19937_64 rng_;
  ScheduleEditor list_;
  DropCandidates candidates_;
  double noise_ = 0;
  std::int64_t limit_ = kInfinite;  // limit of the cost while room is made
  std::uint64_t clock_ = 0;
  bool late_ = false;
  bool cleaned_ = true;  // whether no repeat of the best is useless
  int inserted_ = 0;
  std::optional<Schedule> best_;
  std::int64_t best_cost_ = 0;
  std::vector<Occ> repeats_, erase_stack_, sources_, over_;
};

}  // namespace
}  // namespace neighbourhood_search_detail

std::optional<Solution> neighbourhood_search(const RematProblem& problem, const Schedule& start,
                                             const NeighbourhoodOptions& options) {
  return neighbourhood_search_detail::NeighbourhoodSearch(problem, start, options).run();
}

}  // namespace tidemark
