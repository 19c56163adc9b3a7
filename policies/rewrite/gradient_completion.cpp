#include "policies/rewrite/gradient_completion.hpp"

#include <fmt/format.h>

#include "graph/core/errors.hpp"

namespace tidemark {

std::vector<std::size_t> gradient_completions(const TrainingGraph& graph,
                                              const std::vector<OperatorId>& part,
                                              const std::vector<StorageId>& gradients) {
  constexpr auto kNever = static_cast<std::size_t>(-1);
  IdVector<StorageId, std::size_t> last(graph.storages.size(), kNever);
  for (std::size_t at = 0; at < part.size(); ++at) {
    for (const Touch& touch : graph.touches_of(part[at])) {
      if (touch.access != Access::kRead) last[touch.storage] = at;
    }
  }
  std::vector<std::size_t> completed;
  for (const StorageId gradient : gradients) {
    std::size_t at = last[gradient];
    if (at == kNever) {
      throw InternalError(
          fmt::format("nothing in backward makes '{}'", graph.storages[gradient].name));
    }
    // A bias that is summed before other kernels of its node was added by an operator of its own.
    const bool alone = graph.operators[part[at]].part == OperatorPart::kBiasGradient;
    const NodeId node = alone ? NodeId() : graph.operators[part[at]].node;
    while (node.valid() && at + 1 < part.size() && graph.operators[part[at + 1]].node == node)
      ++at;
    completed.push_back(at);
  }
  return completed;
}

}  // namespace tidemark
