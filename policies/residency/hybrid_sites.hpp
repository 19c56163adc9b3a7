// The values about which `hybrid` chooses, and the operators that its choices repeat.
#pragma once

#include <cstddef>
#include <vector>

#include "policies/residency/saved_gaps.hpp"

namespace tidemark {

// One saved value of the model: the same choice in every step and micro-batch.
struct Site {
  std::vector<SavedGap> gaps;
  std::vector<Duration> free;  // Capuchin's free time of each gap
  Bytes bytes;
  Duration copy_out{};
  Duration copy_in{};
};

// Returns the values of the model that forward leaves undecided for backward, in forward order.
// `starts` are those of predicted_starts().
[[nodiscard]] std::vector<Site> sites_of(const PolicyContext& context, const ResidencyPlan& plan,
                                         const std::vector<Duration>& starts, Bytes min_bytes);

// Returns the compute time of the last step on the device, without operators that a plan
// recomputes.
[[nodiscard]] Duration compute_of_last_step(const PolicyContext& context);

// Repeated operators, by position; those that have been added last can be taken back.
class Repeated {
 public:
  explicit Repeated(std::size_t positions) : marked_(positions, 0) {}
  bool insert(Position p) {  // true when it is new
    if (marked_[p] != 0) return false;
    marked_[p] = 1;
    added_.push_back(p);
    return true;
  }
  [[nodiscard]] std::size_t size() const { return added_.size(); }
  void shrink(std::size_t size) {
    for (; added_.size() > size; added_.pop_back())
      marked_[added_.back()] = 0;
  }

 private:
  IdVector<Position, char> marked_;
  std::vector<Position> added_;
};

}  // namespace tidemark
