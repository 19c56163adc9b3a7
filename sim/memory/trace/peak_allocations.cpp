#include "sim/memory/trace/peak_allocations.hpp"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <map>

#include "sim/memory/trace/id_map.hpp"
#include "sim/memory/trace/snapshot_reader.hpp"

namespace tidemark {
namespace peak_allocations_detail {
namespace {

using Pairs = std::vector<std::pair<std::size_t, std::size_t>>;
using Sizes = std::span<const Bytes>;

// Returns the lengths of the common subsequences of all of `a` with each beginning of `b`.
std::vector<std::uint32_t> last_row(Sizes a, Sizes b, bool backwards) {
  std::vector<std::uint32_t> row(b.size() + 1, 0);
  for (std::size_t i = 0; i < a.size(); ++i) {
    const Bytes value = backwards ? a[a.size() - 1 - i] : a[i];
    std::uint32_t diagonal = 0;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::uint32_t above = row[j + 1];
      const Bytes other = backwards ? b[b.size() - 1 - j] : b[j];
      row[j + 1] = value == other ? diagonal + 1 : std::max(above, row[j]);
      diagonal = above;
    }
  }
  return row;
}

// Hirschberg 1975: halves `a` and cuts `b` where it is best, in memory of one row.
void split(Sizes a, Sizes b, std::size_t first_a, std::size_t first_b, Pairs& pairs) {
  if (a.empty() || b.empty()) return;
  if (a.size() == 1) {
    const auto at = std::find(b.begin(), b.end(), a.front());
    if (at != b.end()) {
      pairs.emplace_back(first_a, first_b + static_cast<std::size_t>(at - b.begin()));
    }
    return;
  }
  const std::size_t half = a.size() / 2;
  const std::vector<std::uint32_t> before = last_row(a.first(half), b, false);
  const std::vector<std::uint32_t> after = last_row(a.subspan(half), b, true);
  std::size_t cut = 0;
  for (std::size_t j = 1; j <= b.size(); ++j) {
    if (before[j] + after[b.size() - j] > before[cut] + after[b.size() - cut]) cut = j;
  }
  split(a.first(half), b.first(cut), first_a, first_b, pairs);
  split(a.subspan(half), b.subspan(cut), first_a + half, first_b + cut, pairs);
}

// Pairs the nearest equal values, up to a window ahead.
void match_nearby(Sizes a, Sizes b, std::size_t first_a, std::size_t first_b, Pairs& pairs) {
  constexpr std::size_t kWindow = 64;
  std::size_t i = 0;
  std::size_t j = 0;
  while (i < a.size() && j < b.size()) {
    bool found = false;
    for (std::size_t away = 0; away <= 2 * kWindow && !found; ++away) {
      for (std::size_t da = away > kWindow ? away - kWindow : 0; da <= std::min(away, kWindow);
           ++da) {
        const std::size_t db = away - da;
        if (i + da >= a.size() || j + db >= b.size() || a[i + da] != b[j + db]) continue;
        i += da;
        j += db;
        found = true;
        break;
      }
    }
    if (found) pairs.emplace_back(first_a + i, first_b + j);
    ++i;
    ++j;
  }
}

}  // namespace
}  // namespace peak_allocations_detail

Bytes RecordedPeak::rounding() const {
  Bytes sum;
  for (const LiveAllocation& allocation : live)
    sum += rounded_request(allocation.bytes) - allocation.bytes;
  return sum;
}

RecordedPeak peak_of_snapshot(const std::string& path, std::optional<int> device) {
  SnapshotReader reader(path, device, true);
  RecordedPeak peak;
  Bytes live;
  std::size_t rows = 0;
  std::size_t peak_rows = 0;
  std::vector<std::size_t> born;  // rows that allocate
  std::vector<std::size_t> died;  // by place in `born`; 0: never
  TraceRow row;
  std::vector<LiveAllocation> all;
  IdMap<std::size_t> place;
  const auto initial = static_cast<std::size_t>(reader.summary().live_blocks);
  while (reader.next(row)) {
    ++rows;
    peak.most_reserved = std::max(peak.most_reserved, reader.reserved());
    if (row.op == TraceOp::kFailed) peak.out_of_memory = true;
    if (row.op == TraceOp::kAllocate) {
      place[row.id] = all.size();
      all.push_back({.bytes = row.bytes, .label = reader.label(), .names = reader.names()});
      born.push_back(rows);
      died.push_back(0);
      live += row.bytes;
    } else if (row.op == TraceOp::kFree || row.op == TraceOp::kRequestFree) {
      const std::size_t* at = place.find(row.id);
      if (at == nullptr) continue;  // a request that failed
      died[*at] = rows;
      live -= all[*at].bytes;
    }
    if (live > peak.bytes) {
      peak.bytes = live;
      peak.reserved = reader.reserved();
      peak_rows = rows;
    }
  }
  peak.allocations = all.size();
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (born[i] > peak_rows || (died[i] != 0 && died[i] <= peak_rows)) continue;
    if (i < initial) ++peak.unordered;
    peak.live.push_back(std::move(all[i]));
  }
  return peak;
}

peak_allocations_detail::Pairs common_subsequence(peak_allocations_detail::Sizes a,
                                                  peak_allocations_detail::Sizes b) {
  peak_allocations_detail::Pairs pairs;
  std::size_t begin = 0;
  while (begin < std::min(a.size(), b.size()) && a[begin] == b[begin]) {
    pairs.emplace_back(begin, begin);
    ++begin;
  }
  std::size_t tail = 0;
  while (tail < std::min(a.size(), b.size()) - begin &&
         a[a.size() - 1 - tail] == b[b.size() - 1 - tail]) {
    ++tail;
  }
  const peak_allocations_detail::Sizes inner_a = a.subspan(begin, a.size() - tail - begin);
  const peak_allocations_detail::Sizes inner_b = b.subspan(begin, b.size() - tail - begin);
  if (!inner_b.empty() && inner_a.size() > kMostCells / inner_b.size()) {
    peak_allocations_detail::match_nearby(inner_a, inner_b, begin, begin, pairs);
  } else {
    peak_allocations_detail::split(inner_a, inner_b, begin, begin, pairs);
  }
  for (std::size_t t = tail; t-- > 0;)
    pairs.emplace_back(a.size() - 1 - t, b.size() - 1 - t);
  return pairs;
}

std::string_view name_of(MatchedBy how) {
  constexpr std::array<std::string_view, kMatchedBys> kNames{
      "the same tensor and size",
      "the same tensor, another size",
      "the same layer and size",
      "the same line of code and size",
      "the same operator and size",
      "the same layer and operator, another size",
      "the same line of code, another size",
      "the same operator, another size",
      "the same size, in order",
      "the same size, in another order",
  };
  return kNames[static_cast<std::size_t>(how)];
}

namespace peak_allocations_detail {
namespace {

// Matches the rest of two peaks, one rule after the other.
class Matching {
 public:
  Matching(const RecordedPeak& a, const RecordedPeak& b) : sides_{Side(a), Side(b)} {}

  void by(MatchedBy how);
  void in_order();
  [[nodiscard]] AllocationMatch result();

 private:
  struct Side {
    explicit Side(const RecordedPeak& recorded) : peak(recorded), taken(recorded.live.size(), 0) {}
    [[nodiscard]] Bytes size(std::size_t i) const { return rounded_request(peak.live[i].bytes); }
    const RecordedPeak& peak;
    std::vector<char> taken;
  };
  // Groups the allocations that are left by what a rule compares; those without a key are left out.
  using Keyed = std::map<std::string, std::vector<std::size_t>>;
  [[nodiscard]] static Keyed left(const Side& side, MatchedBy how);
  void pair(std::size_t i, std::size_t j, MatchedBy how) {
    sides_[0].taken[i] = sides_[1].taken[j] = 1;
    pairs_.push_back({i, j, how});
  }

  std::array<Side, 2> sides_;
  std::vector<AllocationPair> pairs_;
};

// Returns the key that a rule compares; none where an allocation has nothing to compare.
std::optional<std::string> key_of(const LiveAllocation& allocation, MatchedBy how) {
  const RecordedNames& names = allocation.names;
  const auto key = [&](bool known, std::initializer_list<std::string_view> parts) {
    std::optional<std::string> text;
    if (!known) return text;
    text.emplace();
    for (const std::string_view part : parts)
      text->append(part).append(1, '\0');
    if (same_size(how)) *text += std::to_string(rounded_request(allocation.bytes).count);
    return text;
  };
  switch (how) {
    case MatchedBy::kTensor:
    case MatchedBy::kTensorOnly:
      return key(!names.tensor.empty(), {names.tensor, names.layer, names.op, names.phase});
    case MatchedBy::kLayer:
      return key(!names.layer.empty(), {names.layer});
    case MatchedBy::kLayerOnly:
      return key(!names.layer.empty() && !names.op.empty(), {names.layer, names.op, names.phase});
    case MatchedBy::kLine:
    case MatchedBy::kLineOnly:
      return key(!allocation.label.empty(), {allocation.label});
    case MatchedBy::kOperator:
    case MatchedBy::kOperatorOnly:
      return key(!names.op.empty() && !names.phase.empty(), {names.op, names.phase});
    case MatchedBy::kOrder:
    case MatchedBy::kSize:
      return key(true, {});
  }
  return std::nullopt;
}

Matching::Keyed Matching::left(const Side& side, MatchedBy how) {
  Keyed keyed;
  for (std::size_t i = 0; i < side.taken.size(); ++i) {
    if (side.taken[i] != 0) continue;
    if (const auto key = key_of(side.peak.live[i], how)) keyed[*key].push_back(i);
  }
  return keyed;
}

void Matching::by(MatchedBy how) {
  const Keyed of_a = left(sides_[0], how);
  const Keyed of_b = left(sides_[1], how);
  for (const auto& [key, in_a] : of_a) {
    const auto found = of_b.find(key);
    if (found == of_b.end()) continue;
    const std::vector<std::size_t>& in_b = found->second;
    // Layers, lines and operators have many outputs: outputs are identified only where they are one
    // to one.
    const bool one_to_one = same_size(how) || how == MatchedBy::kTensorOnly;
    if (!one_to_one && in_a.size() != in_b.size()) continue;
    for (std::size_t k = 0; k < std::min(in_a.size(), in_b.size()); ++k)
      pair(in_a[k], in_b[k], how);
  }
}

void Matching::in_order() {
  std::array<std::vector<std::size_t>, 2> places;
  std::array<std::vector<Bytes>, 2> sizes;
  for (std::size_t s = 0; s < 2; ++s) {
    for (std::size_t i = sides_[s].peak.unordered; i < sides_[s].taken.size(); ++i) {
      if (sides_[s].taken[i] != 0) continue;
      places[s].push_back(i);
      sizes[s].push_back(sides_[s].size(i));
    }
  }
  for (const auto& [i, j] : common_subsequence(sizes[0], sizes[1]))
    pair(places[0][i], places[1][j], MatchedBy::kOrder);
}

AllocationMatch Matching::result() {
  AllocationMatch match{.pairs = std::move(pairs_), .only_a = {}, .only_b = {}};
  for (std::size_t s = 0; s < 2; ++s) {
    for (std::size_t i = 0; i < sides_[s].taken.size(); ++i) {
      if (sides_[s].taken[i] == 0) (s == 0 ? match.only_a : match.only_b).push_back(i);
    }
  }
  return match;
}

}  // namespace
}  // namespace peak_allocations_detail

AllocationMatch match_allocations(const RecordedPeak& a, const RecordedPeak& b) {
  peak_allocations_detail::Matching matching(a, b);
  for (std::size_t h = 0; h < kMatchedBys; ++h) {
    const auto how = static_cast<MatchedBy>(h);
    if (how == MatchedBy::kOrder) {
      matching.in_order();
    } else {
      matching.by(how);
    }
  }
  return matching.result();
}

}  // namespace tidemark
