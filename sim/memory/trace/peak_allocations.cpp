#include "sim/memory/trace/peak_allocations.hpp"

#include <algorithm>
#include <map>

#include "sim/memory/trace/id_map.hpp"
#include "sim/memory/trace/snapshot_reader.hpp"

namespace tidemark {
namespace {

using Pairs = std::vector<std::pair<std::size_t, std::size_t>>;
using Sizes = std::span<const std::int64_t>;

// Lengths of the common subsequences of all of `a` with each beginning of `b`.
std::vector<std::uint32_t> last_row(Sizes a, Sizes b, bool backwards) {
  std::vector<std::uint32_t> row(b.size() + 1, 0);
  for (std::size_t i = 0; i < a.size(); ++i) {
    const std::int64_t value = backwards ? a[a.size() - 1 - i] : a[i];
    std::uint32_t diagonal = 0;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::uint32_t above = row[j + 1];
      const std::int64_t other = backwards ? b[b.size() - 1 - j] : b[j];
      row[j + 1] = value == other ? diagonal + 1 : std::max(above, row[j]);
      diagonal = above;
    }
  }
  return row;
}

// Hirschberg 1975: halves `a` where the best cut of `b` is, in memory of one row.
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

// The nearest equal values, up to a window ahead.
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

std::int64_t rounded_request(std::int64_t bytes) {
  return (bytes + kTorchBlockMultiple - 1) / kTorchBlockMultiple * kTorchBlockMultiple;
}

std::int64_t RecordedPeak::rounding() const {
  std::int64_t sum = 0;
  for (const LiveAllocation& allocation : live)
    sum += rounded_request(allocation.bytes) - allocation.bytes;
  return sum;
}

RecordedPeak peak_of_snapshot(const std::string& path, std::optional<int> device) {
  SnapshotReader reader(path, device, true);
  RecordedPeak peak;
  std::int64_t live = 0;
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
      all.push_back({.bytes = row.bytes, .label = reader.label()});
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

Pairs common_subsequence(Sizes a, Sizes b) {
  Pairs pairs;
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
  const Sizes inner_a = a.subspan(begin, a.size() - tail - begin);
  const Sizes inner_b = b.subspan(begin, b.size() - tail - begin);
  if (!inner_b.empty() && inner_a.size() > kMostCells / inner_b.size()) {
    match_nearby(inner_a, inner_b, begin, begin, pairs);
  } else {
    split(inner_a, inner_b, begin, begin, pairs);
  }
  for (std::size_t t = tail; t-- > 0;)
    pairs.emplace_back(a.size() - 1 - t, b.size() - 1 - t);
  return pairs;
}

AllocationMatch match_allocations(const RecordedPeak& a, const RecordedPeak& b) {
  const auto sizes_of = [](const RecordedPeak& peak) {
    std::vector<std::int64_t> sizes;
    for (const LiveAllocation& allocation : peak.live)
      sizes.push_back(rounded_request(allocation.bytes));
    return sizes;
  };
  const std::vector<std::int64_t> sizes_a = sizes_of(a);
  const std::vector<std::int64_t> sizes_b = sizes_of(b);
  AllocationMatch match;
  match.in_order =
      common_subsequence(Sizes(sizes_a).subspan(a.unordered), Sizes(sizes_b).subspan(b.unordered));
  std::vector<char> taken_a(sizes_a.size(), 0);
  std::vector<char> taken_b(sizes_b.size(), 0);
  for (auto& [i, j] : match.in_order) {
    i += a.unordered;
    j += b.unordered;
    taken_a[i] = taken_b[j] = 1;
  }
  std::map<std::int64_t, std::vector<std::size_t>> left;  // of b, by size, last first
  for (std::size_t j = sizes_b.size(); j-- > 0;) {
    if (taken_b[j] == 0) left[sizes_b[j]].push_back(j);
  }
  for (std::size_t i = 0; i < sizes_a.size(); ++i) {
    if (taken_a[i] != 0) continue;
    const auto found = left.find(sizes_a[i]);
    if (found == left.end() || found->second.empty()) {
      match.only_a.push_back(i);
      continue;
    }
    match.elsewhere.emplace_back(i, found->second.back());
    taken_b[found->second.back()] = 1;
    found->second.pop_back();
  }
  for (std::size_t j = 0; j < sizes_b.size(); ++j) {
    if (taken_b[j] == 0) match.only_b.push_back(j);
  }
  return match;
}

}  // namespace tidemark
