// Sets of nodes as machine words: NodeSet<W> holds up to 64 * W nodes.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace tidemark {

template <std::size_t W>
struct NodeSet {
  std::array<std::uint64_t, W> words{};

  [[nodiscard]] bool has(std::uint32_t i) const { return (words[i / 64] >> (i % 64) & 1U) != 0; }
  void add(std::uint32_t i) { words[i / 64] |= std::uint64_t{1} << (i % 64); }
  void remove(std::uint32_t i) { words[i / 64] &= ~(std::uint64_t{1} << (i % 64)); }
  [[nodiscard]] bool empty() const {
    for (const std::uint64_t w : words) {
      if (w != 0) return false;
    }
    return true;
  }
  [[nodiscard]] std::uint32_t count() const {
    int n = 0;
    for (const std::uint64_t w : words)
      n += std::popcount(w);
    return static_cast<std::uint32_t>(n);
  }
  [[nodiscard]] bool contains(const NodeSet& other) const {
    for (std::size_t w = 0; w < W; ++w) {
      if ((other.words[w] & ~words[w]) != 0) return false;
    }
    return true;
  }
  friend NodeSet operator&(NodeSet a, const NodeSet& b) {
    for (std::size_t w = 0; w < W; ++w)
      a.words[w] &= b.words[w];
    return a;
  }
  friend NodeSet operator|(NodeSet a, const NodeSet& b) {
    for (std::size_t w = 0; w < W; ++w)
      a.words[w] |= b.words[w];
    return a;
  }
  friend NodeSet operator-(NodeSet a, const NodeSet& b) {
    for (std::size_t w = 0; w < W; ++w)
      a.words[w] &= ~b.words[w];
    return a;
  }
  friend bool operator==(const NodeSet& a, const NodeSet& b) {  // not memcmp: hot, and few words
    for (std::size_t w = 0; w < W; ++w) {
      if (a.words[w] != b.words[w]) return false;
    }
    return true;
  }

  // Calls visit(member) in ascending order.
  template <class F>
  void for_each(F&& visit) const {
    for (std::size_t w = 0; w < W; ++w) {
      for (std::uint64_t rest = words[w]; rest != 0; rest &= rest - 1) {
        visit(static_cast<std::uint32_t>(w * 64) +
              static_cast<std::uint32_t>(std::countr_zero(rest)));
      }
    }
  }
  // Calls found(member) in ascending order and stops at the first member for which it is true.
  template <class F>
  void until(F&& found) const {
    for (std::size_t w = 0; w < W; ++w) {
      for (std::uint64_t rest = words[w]; rest != 0; rest &= rest - 1) {
        if (found(static_cast<std::uint32_t>(w * 64) +
                  static_cast<std::uint32_t>(std::countr_zero(rest)))) {
          return;
        }
      }
    }
  }
  [[nodiscard]] std::uint64_t hash() const {
    std::uint64_t h = 0x9e3779b97f4a7c15U;
    for (const std::uint64_t w : words) {
      h = (h ^ w) * 0xff51afd7ed558ccdU;
      h ^= h >> 32;
    }
    return h;
  }
};

}  // namespace tidemark
