// Edges between storages and those that they are computed from.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "graph/core/large_table.hpp"

namespace tidemark {

// An operator through which two storages are adjacent; the edge exists once the operator does.
struct StorageEdge {
  std::uint32_t op = 0;
  std::uint32_t storage = 0;
};

// Rows of a table of changing length: row i is values[begin[i] .. begin[i + 1]).
template <class T>
struct Rows {
  LargeTable<std::uint32_t> begin{0};
  LargeTable<T> values;
  [[nodiscard]] std::span<const T> operator[](std::size_t row) const {
    return {values.data() + begin[row], values.data() + begin[row + 1]};
  }
  void close_row() { begin.push_back(static_cast<std::uint32_t>(values.size())); }
};

// Sorts (row, value) pairs into rows; pairs of a row keep the given order.
template <class T>
[[nodiscard]] Rows<T> rows_of(std::size_t count,
                              const std::vector<std::pair<std::uint32_t, T>>& pairs) {
  Rows<T> rows;
  rows.begin.assign(count + 1, 0);
  for (const auto& [row, value] : pairs)
    ++rows.begin[row + 1];
  for (std::size_t i = 0; i < count; ++i)
    rows.begin[i + 1] += rows.begin[i];
  std::vector<std::uint32_t> next(rows.begin.begin(), rows.begin.end() - 1);
  rows.values.resize(pairs.size());
  for (const auto& [row, value] : pairs)
    rows.values[next[row]++] = value;
  return rows;
}

// The neighbours of every storage. The edges of one storage are adjacent in memory, those to its
// producers first: a walk of one kind is followed by one of the other.
class StorageEdges {
 public:
  StorageEdges() = default;
  // `producers[i]` is an edge from a storage to one it is computed from; both ends see it.
  StorageEdges(std::size_t storages,
               const std::vector<std::pair<std::uint32_t, StorageEdge>>& producers) {
    std::vector<std::pair<std::uint32_t, StorageEdge>> both;
    both.reserve(2 * producers.size());
    for (const auto& [to, edge] : producers) {
      both.emplace_back(2 * to, edge);
      both.emplace_back(2 * edge.storage + 1, StorageEdge{edge.op, to});
    }
    rows_ = rows_of(2 * storages, both);
  }

  // Returns the edges to a storage's producers, in the order of operators.
  [[nodiscard]] std::span<const StorageEdge> producers(std::uint32_t s) const {
    return rows_[2 * static_cast<std::size_t>(s)];
  }
  [[nodiscard]] std::span<const StorageEdge> consumers(std::uint32_t s) const {
    return rows_[2 * static_cast<std::size_t>(s) + 1];
  }
  [[nodiscard]] std::span<const StorageEdge> both(std::uint32_t s) const {
    const auto row = 2 * static_cast<std::size_t>(s);
    return {rows_.values.data() + rows_.begin[row], rows_.values.data() + rows_.begin[row + 2]};
  }

  void bring_near(std::uint32_t s) const {
    __builtin_prefetch(&rows_.begin[2 * static_cast<std::size_t>(s)]);
  }
  void bring_row_near(std::uint32_t s) const { __builtin_prefetch(both(s).data()); }

 private:
  Rows<StorageEdge> rows_;  // two rows for each storage
};

}  // namespace tidemark
