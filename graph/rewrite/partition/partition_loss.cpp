// The cross-entropy of a vocabulary that is divided among ranks.
#include "graph/operators/known_families.hpp"
#include "graph/rewrite/partition/partition_planner.hpp"

namespace tidemark {

// The logarithm of the probabilities of a cut vocabulary, where only the loss reads it.
bool PartitionPlanner::visit_scores(NodeId id, const std::vector<Layout>& inputs) {
  const Node& node = graph_.nodes[id];
  const auto& readers = sites_.readers[node.outputs[0]];
  const bool of_loss = readers.size() == 1 &&
                       graph_.nodes[readers.front()].family == &nll_loss_family() &&
                       !graph_.nodes[readers.front()].attributes.flag("per_sample");
  const bool classes = inputs[0] && inputs[0]->classes && inputs[0]->axis == 1;
  if (!classes || !of_loss || shape(node.inputs[0]).rank() != 2) return false;
  finish(id, Treatment::kScores, {.wanted = inputs, .made = {inputs[0]}});
  return true;
}

// The loss of such scores. One of log-probabilities that the model itself makes reads them whole.
bool PartitionPlanner::visit_loss(NodeId id, const std::vector<Layout>& inputs) {
  const NodeId maker = sites_.maker[graph_.nodes[id].inputs[0]];
  if (!maker.valid() || result_.nodes[maker].treatment != Treatment::kScores) return false;
  finish(id, Treatment::kVocabularyLoss, {.wanted = inputs, .made = {Layout()}});
  return true;
}

}  // namespace tidemark
