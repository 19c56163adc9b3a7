// A binary heap of storages that can be found in it again: least rank first, then least order.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

namespace tidemark {

class EvictionHeap {
 public:
  struct Entry {
    std::int64_t rank = 0;
    std::uint64_t order = 0;
    std::uint32_t storage = 0;
  };

  explicit EvictionHeap(std::size_t storages) : place_(storages, kOut) {}

  [[nodiscard]] bool contains(std::uint32_t x) const { return place_[x] != kOut; }
  [[nodiscard]] std::size_t size() const { return heap_.size(); }
  // The first entry is at 0; the others are in no meaningful order.
  [[nodiscard]] const Entry& operator[](std::size_t at) const { return heap_[at]; }

  // Adds a storage or changes its place.
  void set(const Entry& entry) {
    std::uint32_t& at = place_[entry.storage];
    if (at == kOut) {
      at = static_cast<std::uint32_t>(heap_.size());
      heap_.emplace_back();
    }
    heap_[at] = entry;
    settle(at);
  }
  void remove(std::uint32_t x) {
    const std::uint32_t at = place_[x];
    if (at == kOut) return;
    place_[x] = kOut;
    const Entry moved = heap_.back();
    heap_.pop_back();
    if (moved.storage == x) return;
    heap_[at] = moved;
    settle(at);
  }

 private:
  static constexpr std::uint32_t kOut = std::numeric_limits<std::uint32_t>::max();

  [[nodiscard]] static bool before(const Entry& a, const Entry& b) {
    return a.rank != b.rank ? a.rank < b.rank : a.order < b.order;
  }
  void settle(std::size_t at) {
    const Entry entry = heap_[at];
    const auto put = [this](std::size_t where, const Entry& each) {
      heap_[where] = each;
      place_[each.storage] = static_cast<std::uint32_t>(where);
    };
    while (at > 0 && before(entry, heap_[(at - 1) / 2])) {
      put(at, heap_[(at - 1) / 2]);
      at = (at - 1) / 2;
    }
    for (;;) {
      std::size_t child = 2 * at + 1;
      if (child >= heap_.size()) break;
      if (child + 1 < heap_.size() && before(heap_[child + 1], heap_[child])) ++child;
      if (!before(heap_[child], entry)) break;
      put(at, heap_[child]);
      at = child;
    }
    put(at, entry);
  }

  std::vector<Entry> heap_;
  std::vector<std::uint32_t> place_;  // place of each storage in heap_
};

}  // namespace tidemark
