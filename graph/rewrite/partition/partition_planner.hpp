// One attempt after another to divide a graph: what turns out to be impossible is left whole in the
// next.
#pragma once

#include <algorithm>
#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "graph/rewrite/partition/cut_rules.hpp"
#include "graph/rewrite/partition/partition_plan.hpp"
#include "graph/rewrite/partition/partition_sites.hpp"

namespace tidemark {

// Returns the extent that one of `parts` has. Where they are more than the extent, which is an
// error that may turn out not to matter, it is 1, so that the rules can go on.
[[nodiscard]] inline std::int64_t part_or_one(std::int64_t extent, std::int64_t parts) {
  return std::max<std::int64_t>(extent / parts, 1);
}

class PartitionPlanner {
 public:
  PartitionPlanner(const Graph& graph, const PartitionOptions& options);
  [[nodiscard]] Partition plan();

 private:
  void attempt();
  [[nodiscard]] bool divides_over(int ranks) const;
  [[nodiscard]] std::string nearest_sizes() const;
  void visit(NodeId id);
  void visit_plain(NodeId id, const std::vector<Layout>& inputs);
  [[nodiscard]] bool visit_rows(NodeId id, const Cut& features, bool by_tokens);
  void visit_columns(NodeId id);
  void visit_linear(NodeId id, std::vector<Layout> inputs);
  [[nodiscard]] bool visit_stacked_weight(NodeId id);
  [[nodiscard]] bool visit_stacked(NodeId id, const std::vector<Layout>& inputs);
  void visit_embedding(NodeId id, const std::vector<Layout>& inputs);
  // Visit a node of the loss; false: it is as any other.
  [[nodiscard]] bool visit_scores(NodeId id, const std::vector<Layout>& inputs);
  [[nodiscard]] bool visit_loss(NodeId id, const std::vector<Layout>& inputs);
  [[nodiscard]] bool visit_context(NodeId id, const std::vector<Layout>& inputs);
  void finish(NodeId id, Treatment treatment, Passage passage);
  void check_outputs();
  void cut_inputs();

  [[nodiscard]] std::vector<Layout> inputs_of(NodeId id);
  [[nodiscard]] bool joins_outside(const Node& node) const;
  [[nodiscard]] bool enters_sequence(const Node& node, TensorId input) const;
  [[nodiscard]] std::span<const TensorId> weights_of(const Node& node) const;
  [[nodiscard]] bool can_be_columns(NodeId id) const;
  [[nodiscard]] Layout tokens_of(const Shape& of);
  [[nodiscard]] bool is_free_parameter(TensorId tensor) const;
  [[nodiscard]] bool is_cut_by_features(const Layout& layout) const {
    return layout.has_value() && !layout->tokens;
  }
  void decide(TensorId parameter, const Layout& layout);
  void reject(const std::vector<NodeId>& origins);
  void share(TensorId tensor, std::int64_t extent);
  void note(std::string problem);
  [[nodiscard]] const Shape& shape(TensorId id) const { return graph_.tensors[id].shape; }

  const Graph& graph_;
  const PartitionOptions& options_;
  PartitionSites sites_;

  // Learnt in earlier attempts.
  IdVector<NodeId, char> rejected_;  // products that are not cut
  IdVector<NodeId, int> sharing_;    // ranks that have the same columns of a product
  std::set<TensorId> whole_;         // parameters that two readers want cut differently
  bool learnt_ = false;

  // The members below belong to one attempt.
  Partition result_;
  IdVector<TensorId, std::vector<NodeId>> origins_;  // products whose columns a tensor's cut is
  IdVector<TensorId, char> decided_;                 // parameters whose layout is known
  IdVector<TensorId, char> joins_;  // whole until the first reader that is no sum of embeddings
  std::int64_t most_heads_ = 0;
  std::string problem_;
  std::string advice_;  // says what to write instead; the sizes that divide follow it
};

}  // namespace tidemark
