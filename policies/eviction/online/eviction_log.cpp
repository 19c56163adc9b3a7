#include "policies/eviction/online/eviction_log.hpp"

#include <algorithm>

namespace tidemark {
namespace {

// (row, value) pairs to rows, pairs of a row in the given order.
template <class T>
Rows<T> rows_of(std::size_t count, const std::vector<std::pair<std::uint32_t, T>>& pairs) {
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

}  // namespace

void connect_storages(EvictionLog& log) {
  std::vector<std::pair<std::uint32_t, std::uint32_t>> tensors;
  std::vector<std::pair<std::uint32_t, StorageEdge>> up;
  std::vector<std::pair<std::uint32_t, StorageEdge>> down;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> pairs;  // (input, output) of one operator
  for (std::uint32_t op = 0; op < log.operators.size(); ++op) {
    pairs.clear();
    const EvictionLog::Operator& o = log.operators[op];
    for (std::uint32_t t = o.first_output; t < o.first_output + o.outputs; ++t) {
      const std::uint32_t to = log.tensors[t].storage;
      tensors.emplace_back(to, t);
      for (const std::uint32_t input : log.inputs[op]) {
        const std::uint32_t from = log.tensors[input].storage;
        if (from != to) pairs.emplace_back(from, to);
      }
    }
    std::sort(pairs.begin(), pairs.end());
    pairs.erase(std::unique(pairs.begin(), pairs.end()), pairs.end());
    for (const auto& [from, to] : pairs) {
      up.emplace_back(to, StorageEdge{op, from});
      down.emplace_back(from, StorageEdge{op, to});
    }
  }
  log.storage_tensors = rows_of(log.storages.size(), tensors);
  log.producers = rows_of(log.storages.size(), up);
  log.consumers = rows_of(log.storages.size(), down);
}

}  // namespace tidemark
