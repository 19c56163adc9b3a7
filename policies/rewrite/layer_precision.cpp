#include "policies/rewrite/layer_precision.hpp"

#include <algorithm>

namespace tidemark {

Graph with_block_types(const Graph& graph, const BlockTypes& types, DType computes,
                       const FrameworkRules& rules) {
  const auto blocks_of = [&](auto&& wanted) {
    std::vector<char> chosen;
    for (const DType type : types)
      chosen.push_back(wanted(type) ? 1 : 0);
    return chosen;
  };
  const auto any = [](const std::vector<char>& chosen) {
    return std::find(chosen.begin(), chosen.end(), 1) != chosen.end();
  };
  Graph result = graph;
  if (computes == DType::kFloat32 || computes == DType::kTf32) {
    for (const DType low : {DType::kBFloat16, DType::kFloat16}) {
      const std::vector<char> chosen = blocks_of([&](DType type) {
        return type == low || (type == DType::kFloat8 && low == DType::kBFloat16);
      });
      if (any(chosen)) result = autocast_blocks(result, chosen, low, rules);
    }
  }
  const std::vector<char> eight = blocks_of([](DType type) { return type == DType::kFloat8; });
  return any(eight) ? fp8_blocks(result, eight) : result;
}

}  // namespace tidemark
