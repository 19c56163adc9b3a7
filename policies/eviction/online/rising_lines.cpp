#include "policies/eviction/online/rising_lines.hpp"

#include <algorithm>

namespace tidemark {

void RisingLines::add(std::uint32_t tier, const Entry& entry) {
  Tier& to = tiers_[tier];
  place_[entry.member] = {static_cast<std::uint32_t>(to.entries.size()), tier};
  to.entries.push_back(entry);
  if (tier == 0) arrived_.push_back(entry.member);
  to.lowest = std::max(to.lowest, entry.at(to.begin));
  to.highest = std::max(to.highest, entry.at(to.end));
}

void RisingLines::take_out(Place place) {
  std::vector<Entry>& entries = tiers_[place.tier].entries;
  place_[entries[place.index].member].index = kNobody;
  if (place.index + 1 < entries.size()) {
    entries[place.index] = entries.back();
    place_[entries[place.index].member].index = place.index;
  }
  entries.pop_back();
}

void RisingLines::remove(std::uint32_t x) {
  if (contains(x)) take_out(place_[x]);
}

void RisingLines::set(std::uint32_t x, const Line& line) {
  std::uint32_t tier = kTiers - 1;
  while (tier > 0 && line.at(tiers_[tier].end) > tiers_[tier].highest)
    --tier;
  if (contains(x)) {
    const Place place = place_[x];
    if (place.tier == tier && tier > 0) {
      Tier& same = tiers_[tier];
      same.entries[place.index] = {line.since, line.slope, x};
      same.lowest = std::max(same.lowest, line.at(same.begin));
      return;
    }
    take_out(place);
  }
  add(tier, {line.since, line.slope, x});
}

// Returns the height that about so many lines of a tier reach at a time, judged by an even sample:
// the few highest of it are kept in order.
double RisingLines::cut(const Tier& tier, std::size_t wanted, std::int64_t at) {
  if (wanted >= tier.entries.size()) return 0;
  const std::size_t stride = (tier.entries.size() + kSample - 1) / kSample;
  const std::size_t rank = wanted / stride;
  std::array<double, kSample> highest;
  std::size_t kept = 0;
  for (std::size_t i = 0; i < tier.entries.size(); i += stride) {
    const double height = tier.entries[i].at(at);
    if (kept > rank && height <= highest[rank]) continue;
    std::size_t place = std::min(kept, rank);
    for (; place > 0 && highest[place - 1] < height; --place)
      highest[place] = highest[place - 1];
    highest[place] = height;
    kept = std::min(kept + 1, rank + 1);
  }
  return highest[kept - 1];
}

// Finds the lines that reach `first` at the begin of a tier's epoch or `last` at its end, and
// bounds the others.
void RisingLines::divide(Tier& tier, double first, double last) {
  rising_.clear();
  double lowest = 0;
  double highest = 0;
  const std::int64_t begin = tier.begin;
  const auto length = static_cast<double>(tier.end - tier.begin);
  const auto count = static_cast<std::uint32_t>(tier.entries.size());
  for (std::uint32_t i = 0; i < count; ++i) {
    const Entry& entry = tier.entries[i];
    const double at_begin = entry.at(begin);
    const double at_end = at_begin + static_cast<double>(entry.slope) * length;
    if (at_begin >= first || at_end >= last) {
      rising_.push_back(i);
      continue;
    }
    lowest = std::max(lowest, at_begin);
    highest = std::max(highest, at_end);
  }
  tier.lowest = lowest;
  tier.highest = highest;
}

// Moves up the lines that are highest now or at the end of a new epoch.
void RisingLines::promote(std::uint32_t from, std::int64_t now) {
  Tier& tier = tiers_[from];
  Tier& to = tiers_[from - 1];
  const std::size_t room = kSize[from - 1];
  // An epoch should last for half of the lines that moved up. Chords over long ones are too high.
  if (tier.asked < room / 2) tier.epoch = now > tier.end ? 2 * tier.epoch : tier.epoch / 2;
  tier.epoch = std::clamp<std::int64_t>(tier.epoch, 1, std::int64_t{1} << 61);
  tier.asked = 0;
  const std::size_t wanted = room > to.entries.size() ? room - to.entries.size() : 1;
  const double first = cut(tier, wanted / 2, now);
  for (;; tier.epoch /= 4) {
    tier.begin = now;
    tier.end = now + tier.epoch;
    divide(tier, first, cut(tier, wanted / 2, tier.end));
    if (rising_.size() <= 2 * room || tier.epoch == 0) break;
  }
  // Entries leave from the last to the first: what fills a freed place is none of those to come.
  for (auto each = rising_.rbegin(); each != rising_.rend(); ++each) {
    const Entry entry = tier.entries[*each];
    take_out({*each, from});
    add(from - 1, entry);
  }
  if (to.entries.size() > 2 * room) demote(from - 1, now);
}

// Moves the lower half back a tier.
void RisingLines::demote(std::uint32_t from, std::int64_t now) {
  std::vector<Entry>& entries = tiers_[from].entries;
  const auto middle = entries.begin() + static_cast<std::ptrdiff_t>(entries.size() / 2);
  std::nth_element(entries.begin(), middle, entries.end(),
                   [now](const auto& a, const auto& b) { return a.at(now) > b.at(now); });
  for (auto entry = middle; entry != entries.end(); ++entry)
    add(from + 1, *entry);
  entries.erase(middle, entries.end());
  for (std::uint32_t i = 0; i < entries.size(); ++i)
    place_[entries[i].member].index = i;
}

std::uint32_t RisingLines::top(std::int64_t now) {
  for (std::size_t t = 1; t < kTiers; ++t)
    ++tiers_[t].asked;
  for (;;) {
    std::uint32_t first = kNobody;
    double height = 0;
    for (const Entry& entry : tiers_[0].entries) {
      const double each = entry.at(now);
      first = each > height ? entry.member : first;
      height = std::max(height, each);
    }
    std::uint32_t late = 1;
    for (; late < kTiers; ++late) {
      const Tier& tier = tiers_[late];
      if (!tier.entries.empty() && (now > tier.end || tier.chord(now) > height)) break;
    }
    if (late == kTiers) return first;
    promote(late, now);
  }
}

}  // namespace tidemark
