// Lines that rise with time, and the search for the highest one without looking at all of them.
//
//   height = slope * (now - since)
//
// The lines stand in tiers: some tens that lead, some hundreds behind them, and so on. A tier is
// left alone while the leaders are above its chord. The highest of several lines is a convex
// function of time, so that it stays below the chord between its values at two moments:
//
//   highest |            . '/     an epoch of a tier begins and ends at fixed moments, at which its
//           |        . '  /       highest is known
//           |    . '__---'
//           +---|---------|--> now
//
// When the leaders fall below the chord, or the epoch is over, the lines that will be highest at
// the end of the next epoch move up a tier. A line that is added stands as far back as its height
// allows.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <vector>

namespace tidemark {

class RisingLines {
 public:
  static constexpr std::uint32_t kNobody = std::numeric_limits<std::uint32_t>::max();

  struct Line {
    float slope = 0;
    std::int64_t since = 0;
    [[nodiscard]] double at(std::int64_t now) const { return height(slope, since, now); }
    friend bool operator==(const Line&, const Line&) = default;
  };

  explicit RisingLines(std::size_t members) : place_(members) {}

  [[nodiscard]] bool contains(std::uint32_t x) const { return place_[x].index != kNobody; }
  [[nodiscard]] Line line(std::uint32_t x) const {
    const Entry& entry = tiers_[place_[x].tier].entries[place_[x].index];
    return {entry.slope, entry.since};
  }

  void bring_near(std::uint32_t x) const { __builtin_prefetch(&place_[x]); }

  // Adds or changes a line.
  void set(std::uint32_t x, const Line& line);
  void remove(std::uint32_t x);

  // Returns the member whose line is highest; kNobody when no line is above 0. `now` is never less
  // than in an earlier call, and below 2^62.
  [[nodiscard]] std::uint32_t top(std::int64_t now);
  // Returns the members that came to lead since the list was last cleared: one of them is the next
  // at the top.
  std::vector<std::uint32_t>& arrived() { return arrived_; }
  // Calls look(y) for all other members of at least threshold(), which may rise meanwhile. `x` is
  // the last result of top(now).
  template <class Threshold, class F>
  void each_beside(std::uint32_t x, std::int64_t now, Threshold&& threshold, F&& look) const;

 private:
  struct Entry {
    std::int64_t since = 0;
    float slope = 0;
    std::uint32_t member = kNobody;
    [[nodiscard]] double at(std::int64_t now) const { return height(slope, since, now); }
  };
  struct Place {
    std::uint32_t index = kNobody;
    std::uint32_t tier = 0;
  };
  struct Tier {
    std::vector<Entry> entries;
    // All lines stay below the chord from `lowest` at `begin` to `highest` at `end`.
    double lowest = 0;
    double highest = 0;
    std::int64_t begin = 0;
    std::int64_t end = 0;
    std::int64_t epoch = 0;  // length of the next epoch
    std::size_t asked = 0;   // calls of top() during this epoch

    [[nodiscard]] double chord(std::int64_t now) const {
      // Exact, so that lines as high as the leaders do not move up and down endlessly.
      if (now == begin) return lowest;
      if (end <= begin) return highest;
      const double part = static_cast<double>(now - begin) / static_cast<double>(end - begin);
      return (lowest + (highest - lowest) * part) * (1 + 0x1p-40);  // far above its rounding
    }
  };
  static constexpr std::size_t kTiers = 4;
  static constexpr std::array<std::size_t, kTiers> kSize{
      48, 384, 4096, std::numeric_limits<std::size_t>::max() / 4};
  static constexpr std::size_t kSample = 64;  // lines of a tier by which cut() judges it

  [[nodiscard]] static double height(float slope, std::int64_t since, std::int64_t now) {
    return static_cast<double>(slope) * static_cast<double>(now - since);
  }
  void add(std::uint32_t tier, const Entry& entry);
  void take_out(Place place);
  void divide(Tier& tier, double first, double last);
  void promote(std::uint32_t from, std::int64_t now);
  void demote(std::uint32_t from, std::int64_t now);
  [[nodiscard]] static double cut(const Tier& tier, std::size_t wanted, std::int64_t at);

  std::array<Tier, kTiers> tiers_;
  std::vector<Place> place_;  // place of each member
  std::vector<std::uint32_t> arrived_;
  std::vector<std::uint32_t> rising_;  // places in a tier of the members that move up
};

template <class Threshold, class F>
void RisingLines::each_beside(std::uint32_t x, std::int64_t now, Threshold&& threshold,
                              F&& look) const {
  for (std::size_t t = 0; t < kTiers; ++t) {
    const Tier& tier = tiers_[t];
    if (t > 0 && (tier.entries.empty() || tier.chord(now) < threshold())) continue;
    for (const Entry& entry : tier.entries) {
      if (entry.member != x && entry.at(now) >= threshold()) look(entry.member);
    }
  }
}

}  // namespace tidemark
