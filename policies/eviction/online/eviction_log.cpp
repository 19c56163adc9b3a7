#include "policies/eviction/online/eviction_log.hpp"

#include <algorithm>

namespace tidemark {
void connect_storages(EvictionLog& log) {
  std::vector<std::pair<std::uint32_t, std::uint32_t>> tensors;
  std::vector<std::pair<std::uint32_t, StorageEdge>> up;
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
    for (const auto& [from, to] : pairs)
      up.emplace_back(to, StorageEdge{op, from});
  }
  log.storage_tensors = rows_of(log.storages.size(), tensors);
  log.edges = StorageEdges(log.storages.size(), up);
}

}  // namespace tidemark
