// The storages that may be evicted, and the choice of the first to go.
//
//   lru, size, random   a heap
//   msps                a heap by cost / bytes
//   dtr_local, dtr, ... cost / (bytes * staleness): its inverse is a line that rises with the
//                       clock, bytes / cost * (clock - last access)
//
// Costs of neighbourhoods are lower bounds until they are walked, so that a filed score is an upper
// bound on who goes first: the first is walked and filed again, until the first is one whose cost
// is known. For the same reason a line need not be changed when its storage is accessed, locked or
// released, which only lowers it: it is updated when it is the highest. A storage that becomes
// evictable is filed at the next choice; many are no longer evictable by then.
#pragma once

#include <cstdint>
#include <vector>

#include "policies/eviction/online/evicted_costs.hpp"
#include "policies/eviction/online/eviction_heap.hpp"
#include "policies/eviction/online/eviction_log.hpp"
#include "policies/eviction/online/heuristic.hpp"
#include "policies/eviction/online/rising_lines.hpp"

namespace tidemark {

class EvictionPool {
 public:
  // The log and the costs must live longer.
  EvictionPool(const EvictionLog& log, EvictionHeuristic heuristic, EvictedCosts& costs);

  [[nodiscard]] bool contains(std::uint32_t x) const { return costs_.record(x).sequence != 0; }
  [[nodiscard]] std::size_t size() const { return size_; }

  // Adds a storage at the end of the pool, whose order decides between equal scores.
  void append(std::uint32_t x) {
    if (!contains(x)) ++size_;
    costs_.record(x).sequence = ++last_sequence_;
    if (!by_line_ || !lines_.contains(x)) mark(x);
  }
  void remove(std::uint32_t x) {
    if (!contains(x)) return;
    costs_.record(x).sequence = 0;
    --size_;
    if (!by_line_) mark(x);
  }
  // Records an access to a member, which keeps its place in the pool.
  void touch(std::uint32_t x) {
    if (!by_line_) mark(x);
  }

  // Raises the costs of the storages beside `x`, which was evicted.
  void raise_beside(std::uint32_t x);

  // Returns the storage that the heuristic evicts at this time; the pool is not empty.
  [[nodiscard]] std::uint32_t choose(std::int64_t clock);

 private:
  void mark(std::uint32_t x) {
    if (marked_[x] != 0) return;
    marked_[x] = 1;
    to_file_.push_back(x);
  }
  void file_marked();
  void file(std::uint32_t x);
  [[nodiscard]] EvictionHeap::Entry entry(std::uint32_t x) const;
  [[nodiscard]] RisingLines::Line line(std::uint32_t x) const;
  [[nodiscard]] VictimSearch::Candidate candidate(std::uint32_t x) const {
    const StorageRecord& record = costs_.record(x);
    return {x, record.bytes, record.sequence};
  }
  void bring_near_arrived();
  std::uint32_t choose_by_ratio();
  std::uint32_t weigh_highest(std::int64_t clock);
  std::uint32_t choose_by_line(std::int64_t clock);
  [[nodiscard]] std::uint32_t last() const;

  const EvictionLog& log_;
  EvictionHeuristic heuristic_;
  EvictedCosts& costs_;
  bool by_line_;
  VictimSearch search_;
  EvictionDice dice_;
  EvictionHeap heap_;
  RisingLines lines_;
  std::size_t storages_;
  std::vector<char> marked_;  // whether each storage is in to_file_
  std::vector<std::uint32_t> to_file_;
  std::vector<std::uint32_t> beside_;
  std::vector<std::uint32_t> near_;  // storages whose records were prefetched
  std::uint64_t last_sequence_ = 0;
  std::size_t size_ = 0;
};

}  // namespace tidemark
