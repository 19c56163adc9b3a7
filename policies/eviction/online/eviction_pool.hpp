// The storages that may be evicted, filed so that the one with the least score is found without
// looking at all of them.
//
//   score = cost / (bytes * staleness),  staleness = clock - last access
//
// Staleness changes all the time, the order by it does not. Storages are filed by slope = bytes /
// cost: a bucket holds those within an eighth of an octave, as a heap by last access. The value
// 1 / score of an entry is at most largest slope * (clock - last access), so with the best score
// known, a bucket is left as soon as the stalest that remain cannot reach it. `cost` may be a lower
// bound: then the bound on the value still holds, and whoever asks evaluates the candidates.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <limits>
#include <vector>

namespace tidemark {

class EvictionPool {
 public:
  static constexpr std::uint32_t kOut = std::numeric_limits<std::uint32_t>::max();

  explicit EvictionPool(std::size_t storages)
      : place_(storages, kOut), bucket_(storages), sequence_(storages), key_(storages) {}

  [[nodiscard]] bool contains(std::uint32_t x) const { return place_[x] != kOut; }
  [[nodiscard]] std::uint64_t sequence(std::uint32_t x) const { return sequence_[x]; }
  [[nodiscard]] std::int64_t key(std::uint32_t x) const { return key_[x]; }
  [[nodiscard]] std::size_t size() const { return size_; }

  // At the end of the pool. Least key first, and among equal keys the last of the pool.
  void append(std::uint32_t x, std::int64_t key, double slope) {
    sequence_[x] = ++last_sequence_;
    key_[x] = key;
    insert(x, slope);
  }
  void remove(std::uint32_t x);
  void change_key(std::uint32_t x, std::int64_t key, double slope);
  void change_slope(std::uint32_t x, double slope);

  // The first of the only bucket in use, where all slopes are equal.
  [[nodiscard]] std::uint32_t top(double slope) const { return member(slope, 0); }
  // The members of that bucket are numbered from 0, in no order that means anything.
  [[nodiscard]] std::uint32_t member(double slope, std::size_t at) const {
    return buckets_[index(slope)].heap[at].storage;
  }
  [[nodiscard]] std::uint32_t last() const;  // of the pool; linear in its size

  // Calls look(x, best) for every entry whose score may be at or below `best`, the least score so
  // far, which look returns. Nothing may be inserted or removed meanwhile.
  template <class F>
  void search(std::int64_t clock, F&& look);

 private:
  // Slopes 2^-64 .. 2^64, eight to an octave; the first is slope 0, the last infinity.
  static constexpr std::size_t kBuckets = 1026;
  static constexpr std::size_t kWords = (kBuckets + 63) / 64;
  static constexpr double kMargin = 1 - 1e-9;  // far above the rounding of bounds in double

  // What is compared lies side by side.
  struct Entry {
    std::int64_t key = 0;
    double slope = 0;
    std::uint32_t storage = 0;
  };
  struct Bucket {
    std::vector<Entry> heap;
    double largest_slope = 0;
  };

  [[nodiscard]] static std::size_t index(double slope) {
    if (slope <= 0) return 0;
    if (slope >= 0x1p64) return kBuckets - 1;
    const auto bits = std::bit_cast<std::uint64_t>(slope) >> 49;
    constexpr std::uint64_t kLeast = std::uint64_t{1023 - 64} << 3;
    return bits <= kLeast ? 1 : static_cast<std::size_t>(bits - kLeast) + 1;
  }
  [[nodiscard]] bool before(const Entry& a, const Entry& b) const {
    return a.key != b.key ? a.key < b.key : sequence_[a.storage] > sequence_[b.storage];
  }
  void insert(std::uint32_t x, double slope);
  void take_out(std::uint32_t x);
  void rise(std::vector<Entry>& heap, std::uint32_t at);
  void sink(std::vector<Entry>& heap, std::uint32_t at);
  template <class F>
  void search_bucket(const Bucket& bucket, std::int64_t clock, double& best, F& look);

  std::array<Bucket, kBuckets> buckets_;
  std::array<std::uint64_t, kWords> used_{};  // a bit per bucket
  std::vector<std::uint32_t> place_;          // in the bucket's heap
  std::vector<std::uint16_t> bucket_;
  std::vector<std::uint64_t> sequence_;  // the order of the pool
  std::vector<std::int64_t> key_;
  std::vector<std::uint32_t> stack_;
  std::uint64_t last_sequence_ = 0;
  std::size_t size_ = 0;
};

template <class F>
void EvictionPool::search(std::int64_t clock, F&& look) {
  double best = std::numeric_limits<double>::infinity();
  // The bucket with the best bound first: the others are then mostly left at once.
  double first_bound = 0;
  std::size_t first = 0;
  const auto each = [&](auto&& visit) {
    for (std::size_t word = 0; word < kWords; ++word) {
      for (std::uint64_t bits = used_[word]; bits != 0; bits &= bits - 1)
        visit(word * 64 + static_cast<std::size_t>(std::countr_zero(bits)));
    }
  };
  each([&](std::size_t i) {
    const Bucket& bucket = buckets_[i];
    const auto stale = static_cast<double>(clock - bucket.heap[0].key);
    const double bound = stale > 0 ? bucket.largest_slope * stale : 0;
    if (bound > first_bound) {
      first_bound = bound;
      first = i;
    }
  });
  if (first == 0) return;
  search_bucket(buckets_[first], clock, best, look);
  each([&](std::size_t i) {
    if (i != 0 && i != first) search_bucket(buckets_[i], clock, best, look);
  });
}

template <class F>
void EvictionPool::search_bucket(const Bucket& bucket, std::int64_t clock, double& best, F& look) {
  stack_.assign(1, 0);
  while (!stack_.empty()) {
    const std::uint32_t at = stack_.back();
    stack_.pop_back();
    const Entry& entry = bucket.heap[at];
    // An entry without staleness scores infinity, and so do those below it. inf * 0 is no number:
    // what may cost nothing is looked at even when the best score is 0.
    if (entry.key >= clock) continue;
    const auto stale = static_cast<double>(clock - entry.key);
    if (bucket.largest_slope * stale * best < kMargin) continue;
    if (!(entry.slope * stale * best < kMargin)) best = look(entry.storage, best);
    const std::size_t child = 2 * std::size_t{at} + 1;
    if (child + 1 < bucket.heap.size()) stack_.push_back(static_cast<std::uint32_t>(child + 1));
    if (child < bucket.heap.size()) stack_.push_back(static_cast<std::uint32_t>(child));
  }
}

}  // namespace tidemark
