// Products of experts whose weights are stacked in one parameter, among tensor ranks.
#include <utility>

#include <fmt/format.h>

#include "graph/rewrite/partition/partition_errors.hpp"
#include "graph/rewrite/partition/partition_planner.hpp"

namespace tidemark {

// The transposed weights of experts whose products are one, [experts, out, in]: cut by what their
// product takes in, where that is cut, else by what it makes.
bool PartitionPlanner::visit_stacked_weight(NodeId id) {
  constexpr int kOut = 1;
  constexpr int kIn = 2;
  const Node& node = graph_.nodes[id];
  const auto& readers = sites_.readers[node.outputs[0]];
  if (options_.group != MeshDimension::kTensor || readers.size() != 1) return false;
  const NodeId product = readers.front();
  const TensorId weight = sites_.stacked_weight(graph_, product).weight;
  if (!weight.valid() || !is_free_parameter(weight)) return false;
  const Layout& rows = result_.tensors[graph_.nodes[product].inputs[0]];
  const bool takes_cut = is_cut_by_features(rows) && rows->axis == 2 && rows->outer == 1 &&
                         rows->whole == shape(weight)[kIn];
  if (!takes_cut && (rejected_[id] != 0 || is_cut_by_features(rows))) return false;
  const std::int64_t features = shape(weight)[kOut];
  if (!takes_cut && features % options_.ranks != 0) {
    note(does_not_divide(features, "features of a layer", options_.ranks) +
         fmt::format(" ({})", graph_.describe(product)));
  }
  Cut cut =
      takes_cut
          ? *rows
          : Cut{.axis = kOut, .whole = features, .part = part_or_one(features, options_.ranks)};
  Passage passage = whole_passage(node);
  cut.axis = takes_cut ? kIn : kOut;
  passage.wanted[0] = cut;
  cut.axis = takes_cut ? kOut : kIn;
  passage.made[0] = cut;
  finish(id, Treatment::kPlain, std::move(passage));
  origins_[node.outputs[0]] = {id};
  return true;
}

// A product with rows of stacked weights: its sum over the ranks is whole again. One with columns
// of them is as any other product of batches.
bool PartitionPlanner::visit_stacked(NodeId id, const std::vector<Layout>& inputs) {
  const bool rows = sites_.stacked_weight(graph_, id).weight.valid() &&
                    is_cut_by_features(inputs[0]) && inputs[0]->axis == 2 &&
                    is_cut_by_features(inputs[1]) && inputs[1]->axis == 1;
  if (!rows) return false;
  Passage passage = whole_passage(graph_.nodes[id]);
  passage.wanted[0] = inputs[0];
  passage.wanted[1] = inputs[1];
  finish(id, Treatment::kRows, std::move(passage));
  return true;
}

}  // namespace tidemark
