#include "policies/loss/megatron_loss.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "graph/core/errors.hpp"
#include "graph/operators/communication/vocabulary.hpp"
#include "graph/rewrite/partition/partition_sites.hpp"
#include "graph/rewrite/vocabulary_loss.hpp"

namespace tidemark {

Graph MegatronLoss::apply(const Graph& graph, const RewriteContext& context) const {
  if (!context.computes_loss) return graph;
  const bool is_cut = std::any_of(graph.nodes.begin(), graph.nodes.end(), [](const Node& node) {
    return node.family == &vocabulary_loss_family();
  });
  if (is_cut) return graph;
  const auto found = find_scores_and_loss(graph);
  if (asked_ && !found) {
    throw UserError({}, "training.loss",
                    fmt::format("megatron_cross_entropy overwrites logits [samples, classes] that "
                                "only the loss reads, and '{}' has none; write cross_entropy",
                                graph.name));
  }
  const bool words = found && found->classes == find_sites(graph).vocabulary;
  return found && (asked_ || words) ? with_vocabulary_loss(graph, *found) : graph;
}

}  // namespace tidemark
