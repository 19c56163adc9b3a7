#include "policies/eviction/online/rising_lines.hpp"

#include <algorithm>

namespace tidemark {

void RisingLines::add(std::uint32_t tier, const Entry& entry) {
  Tier& to = tiers_[tier];
  place_[entry.member] = {static_cast<std::uint32_t>(to.entries.size()), tier};
  to.entries.push_back(entry);
  to.lowest = std::max(to.lowest, entry.line.at(to.begin));
  to.highest = std::max(to.highest, entry.line.at(to.end));
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
  if (contains(x)) take_out(place_[x]);
  std::uint32_t tier = kTiers - 1;
  while (tier > 0 && line.at(tiers_[tier].end) > tiers_[tier].highest)
    --tier;
  add(tier, {line, x});
}

// The height at a time that about so many lines of a tier reach.
double RisingLines::cut(const Tier& tier, std::size_t wanted, std::int64_t at) {
  if (wanted >= tier.entries.size()) return 0;
  constexpr std::size_t kSample = 256;
  const std::size_t stride = std::max<std::size_t>(1, tier.entries.size() / kSample);
  sample_.clear();
  for (std::size_t i = 0; i < tier.entries.size(); i += stride)
    sample_.push_back(tier.entries[i].line.at(at));
  const std::size_t rank = wanted * sample_.size() / tier.entries.size();
  const auto found = sample_.begin() + static_cast<std::ptrdiff_t>(rank);
  std::nth_element(sample_.begin(), found, sample_.end(), std::greater<>());
  return *found;
}

// Moves up those who are highest at the end of a new epoch, the highest of now among them.
void RisingLines::promote(std::uint32_t from, std::int64_t now) {
  Tier& tier = tiers_[from];
  Tier& to = tiers_[from - 1];
  const std::size_t room = kSize[from - 1];
  // An epoch should last for half of those who moved up. Chords over long ones are too high.
  if (tier.asked < room / 2) tier.epoch = now > tier.end ? 2 * tier.epoch : tier.epoch / 2;
  tier.epoch = std::clamp<std::int64_t>(tier.epoch, 1, std::int64_t{1} << 61);
  tier.asked = 0;
  double highest = 0;
  for (const Entry& entry : tier.entries)
    highest = std::max(highest, entry.line.at(now));
  const std::size_t wanted = room > to.entries.size() ? room - to.entries.size() : 1;
  const std::size_t most = std::max(room, wanted);
  double least = 0;
  for (;; tier.epoch /= 4) {
    const std::int64_t end = now + tier.epoch;
    least = std::min(highest, cut(tier, wanted, end));
    std::size_t count = 0;
    for (const Entry& entry : tier.entries)
      count += entry.line.at(end) >= least ? 1U : 0U;
    if (count <= most || tier.epoch == 0) break;
  }
  tier.begin = now;
  tier.end = now + tier.epoch;
  tier.lowest = tier.highest = 0;
  std::size_t kept = 0;
  for (std::size_t i = 0; i < tier.entries.size(); ++i) {
    const Entry entry = tier.entries[i];
    const double height = entry.line.at(tier.end);
    if (height >= least) {
      add(from - 1, entry);
      continue;
    }
    tier.lowest = std::max(tier.lowest, entry.line.at(now));
    tier.highest = std::max(tier.highest, height);
    place_[entry.member].index = static_cast<std::uint32_t>(kept);
    tier.entries[kept++] = entry;
  }
  tier.entries.resize(kept);
  if (to.entries.size() > 2 * room) demote(from - 1, now);
}

// The lower half goes back.
void RisingLines::demote(std::uint32_t from, std::int64_t now) {
  std::vector<Entry>& entries = tiers_[from].entries;
  const auto middle = entries.begin() + static_cast<std::ptrdiff_t>(entries.size() / 2);
  std::nth_element(entries.begin(), middle, entries.end(),
                   [now](const auto& a, const auto& b) { return a.line.at(now) > b.line.at(now); });
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
    const Entry* first = nullptr;
    double height = 0;
    for (const Entry& entry : tiers_[0].entries) {
      const double each = entry.line.at(now);
      if (each <= height) continue;
      height = each;
      first = &entry;
    }
    std::uint32_t late = 1;
    for (; late < kTiers; ++late) {
      const Tier& tier = tiers_[late];
      if (!tier.entries.empty() && (now > tier.end || tier.chord(now) > height)) break;
    }
    if (late == kTiers) return first == nullptr ? kNobody : first->member;
    promote(late, now);
  }
}

}  // namespace tidemark
