// Which storages are computed from which.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace tidemark {

// An operator through which two storages are adjacent; the edge exists once the operator does.
struct StorageEdge {
  std::uint32_t op = 0;
  std::uint32_t storage = 0;
};

// Rows of a table of changing length: row i is values[begin[i] .. begin[i + 1]).
template <class T>
struct Rows {
  std::vector<std::uint32_t> begin{0};
  std::vector<T> values;
  [[nodiscard]] std::span<const T> operator[](std::size_t row) const {
    return {values.data() + begin[row], values.data() + begin[row + 1]};
  }
  void close_row() { begin.push_back(static_cast<std::uint32_t>(values.size())); }
};

// (row, value) pairs to rows, pairs of a row in the given order.
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

}  // namespace tidemark
