#include "policies/eviction/online/eviction_pool.hpp"

#include <bit>
#include <limits>

#include "policies/eviction/online/exact_ratio.hpp"

namespace tidemark {
namespace eviction_pool_detail {
namespace {

constexpr std::size_t kFirstWalk = 64;  // storages; longer walks only if nothing else decides
constexpr std::size_t kLongerWalk = 4;  // times the walk before
constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();

bool files_by_line(EvictionHeuristic heuristic) {
  return ranks_by_cost(heuristic) && heuristic != EvictionHeuristic::kMsps;
}

}  // namespace
}  // namespace eviction_pool_detail

EvictionPool::EvictionPool(const EvictionLog& log, EvictionHeuristic heuristic, EvictedCosts& costs)
    : log_(log),
      heuristic_(heuristic),
      costs_(costs),
      by_line_(eviction_pool_detail::files_by_line(heuristic)),
      search_(heuristic, costs),
      heap_(by_line_ ? 0 : log.storages.size()),
      lines_(by_line_ ? log.storages.size() : 0),
      storages_(log.storages.size()),
      marked_(log.storages.size()) {
  for (std::uint32_t s = 0; s < storages_; ++s)
    costs_.record(s).bytes = log.storages[s].bytes.count;
}

EvictionHeap::Entry EvictionPool::entry(std::uint32_t x) const {
  const std::int64_t bytes = costs_.record(x).bytes;
  const std::uint64_t sequence = costs_.record(x).sequence;
  if (heuristic_ != EvictionHeuristic::kMsps) {
    return {eviction_key(heuristic_, bytes, costs_.last_access(x)), ~sequence, x};
  }
  const double score = exact_ratio(costs_.lower_bound(x), static_cast<Wide>(bytes));
  // The last of the pool wins among equal scores, but the first among scores of 0.
  return {std::bit_cast<std::int64_t>(score), score == 0 ? sequence : ~sequence, x};
}

RisingLines::Line EvictionPool::line(std::uint32_t x) const {
  const std::int64_t bytes = costs_.record(x).bytes;
  const std::int64_t cost = costs_.lower_bound(x);
  if (bytes == 0) return {};
  // Rounded up: the filed slope may only be too high.
  const auto slope = [&] {
    return static_cast<float>((1 + 0x1p-23) * static_cast<double>(bytes) /
                              static_cast<double>(cost));
  };
  return {.slope = cost == 0 ? VictimSearch::kFreeSlope : slope(),
          .since = costs_.latest_access(x)};
}

void EvictionPool::file(std::uint32_t x) {
  if (!by_line_) return contains(x) ? heap_.set(entry(x)) : heap_.remove(x);
  const RisingLines::Line now = line(x);
  if (lines_.contains(x)) {
    const RisingLines::Line filed = lines_.line(x);
    if (now.slope <= filed.slope && now.since >= filed.since) return;
  } else if (!contains(x) || now.slope == 0) {
    return;
  }
  lines_.set(x, now);
}

void EvictionPool::file_marked() {
  for (const std::uint32_t x : costs_.changed())
    mark(x);
  costs_.changed().clear();
  for (const std::uint32_t x : to_file_) {
    marked_[x] = 0;
    file(x);
  }
  to_file_.clear();
}

// Walks these storages at once, while they are far from winning: a line that falls from the top
// costs more.
void EvictionPool::raise_beside(std::uint32_t x) {
  if (!by_line_ || neighbourhood_of(heuristic_) == Neighbourhood::kNone) return;
  const std::size_t changed = costs_.changed().size();
  beside_.clear();
  for (const StorageEdge& edge : log_.edges.both(x)) {
    if (!contains(edge.storage) || !lines_.contains(edge.storage)) continue;
    beside_.push_back(edge.storage);
  }
  for (const std::uint32_t beside : beside_)
    costs_.bring_neighbours_near(beside);
  for (const std::uint32_t beside : beside_) {
    costs_.evaluate(beside, eviction_pool_detail::kNoLimit, eviction_pool_detail::kFirstWalk);
    const RisingLines::Line now = line(beside);
    if (now != lines_.line(beside)) lines_.set(beside, now);
  }
  costs_.changed().resize(changed);  // storages raised here are filed
}

std::uint32_t EvictionPool::choose(std::int64_t clock) {
  file_marked();
  if (heuristic_ == EvictionHeuristic::kRandom) return heap_[dice_.below(heap_.size())].storage;
  if (heuristic_ == EvictionHeuristic::kMsps) return choose_by_ratio();
  return by_line_ ? choose_by_line(clock) : heap_[0].storage;
}

std::uint32_t EvictionPool::choose_by_ratio() {
  for (std::size_t most = eviction_pool_detail::kFirstWalk;;) {
    const std::uint32_t x = heap_[0].storage;
    const std::int64_t bound = costs_.lower_bound(x);
    const EvictedCosts::Evaluation found = costs_.evaluate(x, eviction_pool_detail::kNoLimit, most);
    if (found.exact && costs_.lower_bound(x) == bound) {
      costs_.changed().clear();  // all of them were filed below
      return x;
    }
    if (!found.exact) most *= eviction_pool_detail::kLongerWalk;
    heap_.set(entry(x));
  }
}

// Prefetches what is read of the storages that came to lead, in the order in which it leads on: a
// record, then the storages beside it.
void EvictionPool::bring_near_arrived() {
  for (const std::uint32_t each : near_)
    costs_.bring_neighbours_near(each);
  for (const std::uint32_t each : lines_.arrived())
    costs_.bring_near(each);
  near_.swap(lines_.arrived());
  lines_.arrived().clear();
}

// Walks the storages of the highest lines and files them again, until the cost of the one on top is
// known or none can win any more; returns the one on top, or kNobody if no line is above 0.
std::uint32_t EvictionPool::weigh_highest(std::int64_t clock) {
  for (std::size_t most = eviction_pool_detail::kFirstWalk;;) {
    const std::uint32_t x = lines_.top(clock);
    if (x == RisingLines::kNobody) return x;
    bring_near_arrived();
    if (!contains(x)) {
      lines_.remove(x);
      continue;
    }
    const std::int64_t bound = costs_.lower_bound(x);
    const RisingLines::Line now = line(x);
    bool known = true;
    if (now == lines_.line(x)) {
      if (now.at(clock) < search_.threshold()) return x;
      known = search_.weigh(candidate(x), most);
      if (!known) most *= eviction_pool_detail::kLongerWalk;
      const bool filed = costs_.lower_bound(x) == bound && costs_.latest_access(x) == now.since;
      if (filed && known) return x;
      if (filed) continue;
    }
    lines_.set(x, line(x));
  }
}

std::uint32_t EvictionPool::choose_by_line(std::int64_t clock) {
  search_.begin(clock);
  const std::uint32_t x = weigh_highest(clock);
  if (x != RisingLines::kNobody) {
    for (const StorageEdge& edge : log_.edges.both(x)) {
      costs_.bring_near(edge.storage);
      lines_.bring_near(edge.storage);
    }
    // The first one's cost is known: storages as close as rounding may still win.
    const auto threshold = [this] { return search_.threshold(); };
    lines_.each_beside(x, clock, threshold, [&](std::uint32_t other) {
      if (contains(other)) search_.weigh(candidate(other), VictimSearch::kWhole);
    });
  }
  costs_.changed().clear();  // lines that fell; they are filed again when they win
  const std::uint32_t victim =
      search_.victim() == VictimSearch::kNoVictim ? last() : search_.victim();
  lines_.remove(victim);
  return victim;
}

// Returns the storage to evict if none has a finite score.
std::uint32_t EvictionPool::last() const {
  std::uint32_t last = 0;
  for (std::uint32_t s = 1; s < storages_; ++s) {
    if (costs_.record(s).sequence > costs_.record(last).sequence) last = s;
  }
  return last;
}

}  // namespace tidemark
