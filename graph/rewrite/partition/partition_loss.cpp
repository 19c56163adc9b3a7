// The embedding and the cross-entropy of a vocabulary that is divided among ranks.
#include <algorithm>
#include <utility>

#include "graph/operators/known_families.hpp"
#include "graph/rewrite/partition/partition_planner.hpp"

namespace tidemark {

void PartitionPlanner::visit_embedding(NodeId id, const std::vector<Layout>& inputs) {
  const Node& node = graph_.nodes[id];
  const TensorId table = node.inputs[1];
  const std::int64_t rows = shape(table)[0];
  Passage passage = whole_passage(node);
  const bool is_vocabulary = options_.group == MeshDimension::kTensor &&
                             sites_.indexed_by_input(graph_, id) && rows == sites_.vocabulary;
  if (!is_vocabulary || !is_free_parameter(table)) {
    passage.wanted[0] = passage.made[0] = inputs[0];
    return finish(id, Treatment::kPlain, std::move(passage));
  }
  passage.wanted[1] =
      Cut{.axis = 0, .whole = rows, .part = vocabulary_part(rows, options_), .classes = true};
  const TensorId out = node.outputs[0];
  const auto& readers = sites_.readers[out];
  const bool joined = std::any_of(readers.begin(), readers.end(), [&](NodeId reader) {
    return joins_outside(graph_.nodes[reader]);
  });
  if (options_.sequence && !joined && shape(out).rank() == 3)
    passage.made[0] = tokens_of(shape(out));
  finish(id, Treatment::kVocabularyEmbedding, std::move(passage));
  joins_[out] = joined ? 1 : 0;
}

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
