// The temperature of a search by random changes.
#pragma once

#include <algorithm>
#include <cstdint>

namespace tidemark {

// Reheating: cycles of iterations that grow, each of which begins warm and ends cold.
class CoolingCycles {
 public:
  // Returns the share of the cycle of iteration `k` that is done; called for ascending k.
  double done(std::int64_t k) {
    if (k >= end_) {
      begin_ = k;
      end_ = k + length_;
      length_ = std::min(length_ * 3 / 2, kLongest);
    }
    return static_cast<double>(k - begin_) / static_cast<double>(end_ - begin_);
  }

 private:
  static constexpr std::int64_t kLongest = 40'000;
  std::int64_t length_ = 4000;
  std::int64_t begin_ = 0;
  std::int64_t end_ = 0;
};

}  // namespace tidemark
