// A flat hash map from non-negative 64-bit numbers: open addressing, one probe for most look-ups.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace tidemark {

template <class V>
class IdMap {
 public:
  [[nodiscard]] V* find(std::int64_t key) {
    if (entries_.empty()) return nullptr;
    for (std::size_t at = home(key);; at = (at + 1) & mask()) {
      if (entries_[at].key == key) return &entries_[at].value;
      if (entries_[at].key == kEmpty) return nullptr;
    }
  }
  // Returns the value of `key`, a new one if there is none. Invalidates pointers to others.
  V& operator[](std::int64_t key) {
    if (V* found = find(key)) return *found;
    if (4 * (count_ + 1) > 3 * entries_.size()) grow();
    std::size_t at = home(key);
    while (entries_[at].key != kEmpty)
      at = (at + 1) & mask();
    ++count_;
    entries_[at].key = key;
    return entries_[at].value;
  }
  // `value` came from find(). Later entries of the same run move up, so no tombstones are left.
  void erase(V* value) {
    std::size_t hole = index_of(value);
    for (std::size_t at = (hole + 1) & mask(); entries_[at].key != kEmpty; at = (at + 1) & mask()) {
      const std::size_t distance = (at - home(entries_[at].key)) & mask();
      if (distance < ((at - hole) & mask())) continue;
      entries_[hole] = std::move(entries_[at]);
      hole = at;
    }
    entries_[hole] = Entry();
    --count_;
  }
  [[nodiscard]] std::size_t size() const { return count_; }

 private:
  static constexpr std::int64_t kEmpty = -1;
  static constexpr std::size_t kFirstSize = 64;

  struct Entry {
    std::int64_t key = kEmpty;
    V value{};
  };

  [[nodiscard]] std::size_t mask() const { return entries_.size() - 1; }
  // Fibonacci hashing: the upper bits of the product are well mixed.
  [[nodiscard]] std::size_t home(std::int64_t key) const {
    return (static_cast<std::uint64_t>(key) * 0x9E3779B97F4A7C15ULL) >> shift_;
  }
  [[nodiscard]] std::size_t index_of(const V* value) const {
    const auto* first = reinterpret_cast<const std::byte*>(&entries_.front().value);
    return static_cast<std::size_t>(reinterpret_cast<const std::byte*>(value) - first) /
           sizeof(Entry);
  }
  void grow() {
    std::vector<Entry> old(entries_.empty() ? kFirstSize : 2 * entries_.size());
    old.swap(entries_);
    shift_ = 64;
    for (std::size_t size = entries_.size(); size > 1; size /= 2)
      --shift_;
    for (Entry& entry : old) {
      if (entry.key == kEmpty) continue;
      std::size_t at = home(entry.key);
      while (entries_[at].key != kEmpty)
        at = (at + 1) & mask();
      entries_[at] = std::move(entry);
    }
  }

  std::vector<Entry> entries_;
  std::size_t count_ = 0;
  int shift_ = 64;
};

}  // namespace tidemark
