#include "policies/remat/reversal.hpp"

#include <cstddef>
#include <utility>

namespace tidemark {
namespace reversal_detail {
namespace {

// Returns the fewest repeated forward steps to reverse l steps whose first input is kept, with s
// further checkpoints: c = s + 1, the smallest r with binomial(c + r, c) >= l, then r l -
// binomial(c + r, c + 1). Advancing k steps leaves l - k with one checkpoint less, then k:
//   cost(l, s) = min over k of  k + cost(l - k, s - 1) + cost(k, s)
std::int64_t reversal_cost(std::int64_t length, std::int64_t checkpoints) {
  if (length <= 1) return 0;
  if (checkpoints == 0) return length * (length - 1) / 2;
  const std::int64_t c = checkpoints + 1;
  std::int64_t reach = 1;  // binomial(c + r, c)
  std::int64_t above = 0;  // binomial(c + r, c + 1)
  std::int64_t r = 0;
  while (reach < length) {
    above += reach;  // Pascal's rule, from r to r + 1
    ++r;
    reach = reach * (c + r) / r;
  }
  return r * length - above;
}

// Returns the number of steps to advance before the next checkpoint; the first of the best.
int best_split(int length, int checkpoints) {
  std::int64_t best = -1;
  int split = 1;
  for (int k = 1; k < length; ++k) {
    const std::int64_t cost =
        k + reversal_cost(length - k, checkpoints - 1) + reversal_cost(k, checkpoints);
    if (best >= 0 && cost >= best) continue;
    best = cost;
    split = k;
  }
  return split;
}

class Reversal {
 public:
  Reversal(int blocks, int checkpoints) : before_(static_cast<std::size_t>(blocks)) {
    reverse(0, blocks, checkpoints);
  }
  [[nodiscard]] std::vector<std::vector<int>> take() { return std::move(before_); }

 private:
  void run_forward(int block) {
    if (block >= blocks_run_) {
      ++blocks_run_;  // for the first time, in order
      return;
    }
    pending_.push_back(block);
  }
  void reverse(int begin, int end, int checkpoints) {
    if (end - begin == 1) {
      run_forward(begin);
      before_[static_cast<std::size_t>(begin)] = std::move(pending_);
      pending_.clear();
      return;
    }
    if (checkpoints == 0) {  // from the first input each time
      for (int last = end; last > begin; --last) {
        for (int b = begin; b < last - 1; ++b)
          run_forward(b);
        reverse(last - 1, last, 0);
      }
      return;
    }
    const int middle = begin + best_split(end - begin, checkpoints);
    for (int b = begin; b < middle; ++b)
      run_forward(b);
    reverse(middle, end, checkpoints - 1);
    reverse(begin, middle, checkpoints);
  }

  std::vector<std::vector<int>> before_;
  std::vector<int> pending_;
  int blocks_run_ = 0;
};

}  // namespace
}  // namespace reversal_detail

std::vector<std::vector<int>> revolve_repeats(int blocks, int checkpoints) {
  return reversal_detail::Reversal(blocks, checkpoints).take();
}

}  // namespace tidemark
