// The parties that are on one link at a time, and how the link is divided among them.
//
// Each of several parties alone is on the link for a part u of its time. If they ask for more than
// the link has, each of them takes S times as long there and as long as before elsewhere, so that
// it runs 1 - u + u S times as long in all. S is such that the link is full:
//
//   sum of u / (1 - u + u S) = 1        two with u = 1: S = 2; two with 3/4: S = 5/3, 3/2 in all
//
// A message that waits most of its time, for hops and for other ranks, is hardly slowed down.
#pragma once

#include <array>
#include <cstddef>

namespace tidemark {

class LinkLoad {
 public:
  void add(double use) {
    if (use <= 0 || count_ == uses_.size()) return;
    uses_[count_++] = use;
    sum_ += use;
  }
  // Returns S; 1 where the link is not full.
  [[nodiscard]] double stretch() const {
    double s = 1;
    if (sum_ <= 1) return s;
    // The sum falls and is convex in S, so that Newton's steps from 1 stay below the root.
    for (int step = 0; step < kSteps; ++step) {
      double excess = -1;
      double slope = 0;
      for (std::size_t i = 0; i < count_; ++i) {
        const double longer = 1 - uses_[i] + uses_[i] * s;
        excess += uses_[i] / longer;
        slope -= uses_[i] * uses_[i] / (longer * longer);
      }
      const double next = s - excess / slope;
      if (!(next > s * (1 + kExact))) break;
      s = next;
    }
    return s;
  }

 private:
  static constexpr std::size_t kMost = 16;  // more than there are streams
  static constexpr int kSteps = 60;
  static constexpr double kExact = 1e-13;
  std::array<double, kMost> uses_{};
  std::size_t count_ = 0;
  double sum_ = 0;
};

}  // namespace tidemark
