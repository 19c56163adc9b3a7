#include "sim/memory/packing/greedy.hpp"

#include <algorithm>
#include <bit>
#include <iterator>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include "sim/memory/packing/time_sections.hpp"

namespace tidemark {
namespace greedy_detail {
namespace {

using Clock = std::chrono::steady_clock;

// Most problems have no deadline, and asking for the time costs as much as a short scan.
bool over(Clock::time_point deadline) {
  return deadline != Clock::time_point::max() && Clock::now() >= deadline;
}

constexpr Bytes kMost{std::numeric_limits<std::int64_t>::max()};

// Returns for each buffer the most bytes live at one instant of its life. Uses a sparse table over
// the sections.
std::vector<Bytes> most_live_beside(const PackingProblem& problem) {
  const TimeSections sections = time_sections(problem);
  const auto count = static_cast<std::size_t>(sections.count);
  std::vector<std::vector<Bytes>> most(1, std::vector<Bytes>(count + 1));
  for (std::size_t i = 0; i < problem.buffers.size(); ++i) {
    most[0][static_cast<std::size_t>(sections.spans[i].first)] += problem.buffers[i].size;
    most[0][static_cast<std::size_t>(sections.spans[i].last)] -= problem.buffers[i].size;
  }
  std::partial_sum(most[0].begin(), most[0].end(), most[0].begin());
  for (std::size_t width = 1; 2 * width <= count; width *= 2) {
    const std::vector<Bytes>& half = most.back();
    std::vector<Bytes> whole(count - 2 * width + 1);
    for (std::size_t s = 0; s < whole.size(); ++s)
      whole[s] = std::max(half[s], half[s + width]);
    most.push_back(std::move(whole));
  }
  std::vector<Bytes> result;
  for (const SectionSpan& span : sections.spans) {
    const auto length = static_cast<unsigned>(span.last - span.first);
    const auto level = static_cast<std::size_t>(std::bit_width(length) - 1);
    const auto last = static_cast<std::size_t>(span.last) - std::bit_floor(length);
    result.push_back(
        std::max(most[level][static_cast<std::size_t>(span.first)], most[level][last]));
  }
  return result;
}

// The buffers placed so far in the order of their offsets, as columns that a scan runs through.
struct Placed {
  std::vector<Bytes> offset, end;
  std::vector<std::int64_t> lower, upper;

  void reserve(std::size_t n) {
    for (auto* column : {&offset, &end})
      column->reserve(n);
    for (auto* column : {&lower, &upper})
      column->reserve(n);
  }
  void insert(const Buffer& b, Bytes at) {
    const auto i = std::upper_bound(offset.begin(), offset.end(), at) - offset.begin();
    offset.insert(offset.begin() + i, at);
    end.insert(end.begin() + i, at + b.size);
    lower.insert(lower.begin() + i, b.lower);
    upper.insert(upper.begin() + i, b.upper);
  }
  [[nodiscard]] Bytes gap_for(const Buffer& b, FitRule fit) const {
    Bytes top;
    Bytes best = kMost;
    Bytes best_gap = kMost;
    for (std::size_t i = 0; i < offset.size(); ++i) {
      if (lower[i] >= b.upper || upper[i] <= b.lower) continue;
      const Bytes gap = offset[i] - top;
      if (gap >= b.size && gap < best_gap) {
        if (fit == FitRule::kFirst) return top;
        best = top;
        best_gap = gap;
      }
      top = std::max(top, end[i]);
    }
    return best == kMost ? top : best;
  }
};

// The addresses that are free while buffers come and go.
class FreeRanges {
 public:
  // Returns the lowest of the smallest ranges that are large enough, or the end of all.
  Bytes take(Bytes size) {
    const auto found = by_size_.lower_bound({size, Bytes(0)});
    if (found == by_size_.end()) {
      const Bytes at = end_;
      end_ += size;
      return at;
    }
    const auto [length, at] = *found;
    remove(at, length);
    if (length > size) add(at + size, length - size);
    return at;
  }
  void give_back(Bytes at, Bytes size) {
    const auto above = by_offset_.lower_bound(at);
    if (above != by_offset_.end() && above->first == at + size) {
      size += above->second;
      remove(above->first, above->second);
    }
    const auto next = by_offset_.lower_bound(at);
    if (next != by_offset_.begin()) {
      const auto [below, length] = *std::prev(next);
      if (below + length == at) {
        remove(below, length);
        at = below;
        size += length;
      }
    }
    add(at, size);
  }

 private:
  void add(Bytes at, Bytes size) {
    by_offset_.emplace(at, size);
    by_size_.emplace(size, at);
  }
  void remove(Bytes at, Bytes size) {
    by_offset_.erase(at);
    by_size_.erase({size, at});
  }
  Bytes end_;
  std::map<Bytes, Bytes> by_offset_;           // sizes
  std::set<std::pair<Bytes, Bytes>> by_size_;  // size, offset
};

// Places the buffers as place_in_order() does; none where the deadline comes first.
std::optional<Packing> placed_until(const PackingProblem& problem, std::span<const int> order,
                                    FitRule fit, Clock::time_point deadline) {
  Packing packing{.offsets = std::vector<Bytes>(problem.buffers.size())};
  Placed placed;
  placed.reserve(problem.buffers.size());
  for (const int i : order) {
    const Buffer& b = problem.buffers[static_cast<std::size_t>(i)];
    if (b.size == Bytes(0)) continue;
    if (over(deadline)) return std::nullopt;
    const Bytes at = placed.gap_for(b, fit);
    packing.offsets[static_cast<std::size_t>(i)] = at;
    placed.insert(b, at);
  }
  packing.height = height_of(problem, packing.offsets);
  return packing;
}

// Places the buffers as pack_skyline() does; none where the deadline comes first.
std::optional<Packing> skyline_until(const PackingProblem& problem, Clock::time_point deadline) {
  // Candidates keep the order of their duration, so that the first of the lowest is the longest.
  std::vector<int> left = greedy_order(problem, GreedyOrder::kDuration);
  std::vector<Bytes> rests_at(left.size());  // by place in `left`
  Packing packing{.offsets = std::vector<Bytes>(left.size())};
  while (!left.empty()) {
    if (over(deadline)) return std::nullopt;
    const auto lowest = static_cast<std::size_t>(
        std::min_element(rests_at.begin(), rests_at.end()) - rests_at.begin());
    const auto chosen = static_cast<std::size_t>(left[lowest]);
    const Buffer& b = problem.buffers[chosen];
    const Bytes end = rests_at[lowest] + b.size;
    packing.offsets[chosen] = rests_at[lowest];
    packing.height = std::max(packing.height, end);
    left.erase(left.begin() + static_cast<std::ptrdiff_t>(lowest));
    rests_at.erase(rests_at.begin() + static_cast<std::ptrdiff_t>(lowest));
    for (std::size_t k = 0; k < left.size(); ++k) {
      const Buffer& other = problem.buffers[static_cast<std::size_t>(left[k])];
      if (other.lower < b.upper && b.lower < other.upper) rests_at[k] = std::max(rests_at[k], end);
    }
  }
  return packing;
}

}  // namespace
}  // namespace greedy_detail

std::string_view name_of(GreedyOrder order) {
  constexpr std::string_view kNames[] = {"size", "duration", "area", "breadth", "end"};
  return kNames[static_cast<int>(order)];
}

std::vector<int> greedy_order(const PackingProblem& problem, GreedyOrder order) {
  const std::vector<Buffer>& buffers = problem.buffers;
  using Key = std::pair<double, double>;  // decreasing; exact up to 2^53, which is enough to rank
  std::vector<Key> keys;
  const std::vector<Bytes> breadth = order == GreedyOrder::kBreadth
                                         ? greedy_detail::most_live_beside(problem)
                                         : std::vector<Bytes>();
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    const auto size = static_cast<double>(buffers[i].size.count);
    const auto duration =
        static_cast<double>(buffers[i].upper) - static_cast<double>(buffers[i].lower);
    switch (order) {
      case GreedyOrder::kSize:
        keys.emplace_back(size, duration);
        break;
      case GreedyOrder::kDuration:
        keys.emplace_back(duration, size);
        break;
      case GreedyOrder::kArea:
        keys.emplace_back(size * duration, duration);
        break;
      case GreedyOrder::kBreadth:
        keys.emplace_back(static_cast<double>(breadth[i].count), size);
        break;
      case GreedyOrder::kEnd:
        keys.emplace_back(static_cast<double>(buffers[i].upper), duration);
        break;
    }
  }
  std::vector<int> result(buffers.size());
  std::iota(result.begin(), result.end(), 0);
  std::stable_sort(result.begin(), result.end(), [&](int a, int b) {
    return keys[static_cast<std::size_t>(a)] > keys[static_cast<std::size_t>(b)];
  });
  return result;
}

Packing place_in_order(const PackingProblem& problem, std::span<const int> order, FitRule fit) {
  return *greedy_detail::placed_until(problem, order, fit,
                                      std::chrono::steady_clock::time_point::max());
}

Packing pack_greedily(const PackingProblem& problem, GreedyOrder order, FitRule fit) {
  return place_in_order(problem, greedy_order(problem, order), fit);
}

Packing pack_skyline(const PackingProblem& problem) {
  return *greedy_detail::skyline_until(problem, std::chrono::steady_clock::time_point::max());
}

Packing pack_by_time(const PackingProblem& problem) {
  std::vector<int> begins(problem.buffers.size());
  std::iota(begins.begin(), begins.end(), 0);
  std::vector<int> ends = begins;
  const auto buffer = [&](int i) -> const Buffer& {
    return problem.buffers[static_cast<std::size_t>(i)];
  };
  std::stable_sort(begins.begin(), begins.end(),
                   [&](int a, int b) { return buffer(a).lower < buffer(b).lower; });
  std::stable_sort(ends.begin(), ends.end(),
                   [&](int a, int b) { return buffer(a).upper < buffer(b).upper; });
  Packing packing{.offsets = std::vector<Bytes>(begins.size())};
  greedy_detail::FreeRanges free;
  std::size_t ended = 0;
  for (const int i : begins) {
    const Buffer& b = buffer(i);
    if (b.size == Bytes(0)) continue;
    // Lifetimes are half open: what ends now is free. It has begun before, if it takes any time.
    for (; ended < ends.size() && buffer(ends[ended]).upper <= b.lower; ++ended) {
      const int old = ends[ended];
      if (buffer(old).size > Bytes(0))
        free.give_back(packing.offsets[static_cast<std::size_t>(old)], buffer(old).size);
    }
    const Bytes at = free.take(b.size);
    packing.offsets[static_cast<std::size_t>(i)] = at;
    packing.height = std::max(packing.height, at + b.size);
  }
  return packing;
}

Packing best_greedy(const PackingProblem& problem, Bytes lower_bound,
                    std::chrono::steady_clock::time_point deadline) {
  std::optional<Packing> best = greedy_detail::skyline_until(problem, deadline);
  if (!best) return pack_by_time(problem);
  for (const GreedyOrder order : kGreedyOrders) {
    for (const FitRule fit : {FitRule::kFirst, FitRule::kBest}) {
      if (best->height <= lower_bound) return *best;
      std::optional<Packing> packing =
          greedy_detail::placed_until(problem, greedy_order(problem, order), fit, deadline);
      if (!packing) return *best;
      if (packing->height < best->height) best = std::move(packing);
    }
  }
  return *best;
}

}  // namespace tidemark
