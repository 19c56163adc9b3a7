#include "graph/rewrite/partition/partition_planner.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "graph/core/errors.hpp"
#include "graph/operators/communication/expert_rows.hpp"
#include "graph/operators/known_families.hpp"
#include "graph/operators/registry.hpp"
#include "graph/rewrite/packed_weights.hpp"
#include "graph/rewrite/partition/partition_errors.hpp"

namespace tidemark {
namespace partition_planner_detail {
namespace {

// Each attempt but the last leaves another product whole; models that need more have no layers.
constexpr int kMostAttempts = 64;

bool has_cut(const std::vector<Layout>& layouts) {
  return std::any_of(layouts.begin(), layouts.end(), [](const Layout& l) { return l.has_value(); });
}

}  // namespace
}  // namespace partition_planner_detail

PartitionPlanner::PartitionPlanner(const Graph& graph, const PartitionOptions& options)
    : graph_(graph),
      options_(options),
      sites_(find_sites(graph)),
      rejected_(graph.nodes.size(), 0),
      sharing_(graph.nodes.size(), 1) {}

Partition PartitionPlanner::plan() {
  if (has_packed_weights(graph_)) {
    throw UserError({}, options_.path,
                    "does not go with prune's method 2:4, whose weights are packed and cannot be "
                    "divided; leave one of the two out");
  }
  for (int i = 0; i < partition_planner_detail::kMostAttempts; ++i) {
    attempt();
    if (learnt_) continue;
    if (!problem_.empty())
      throw UserError({}, options_.path, problem_ + "; " + advice_ + nearest_sizes());
    const bool divided = std::any_of(
        result_.nodes.begin(), result_.nodes.end(),
        [](const NodePartition& node) { return partition_planner_detail::has_cut(node.made); });
    if (divided) return std::move(result_);
    const bool made_anew =
        std::any_of(graph_.nodes.begin(), graph_.nodes.end(), [&](const Node& n) {
          return n.family == &linear_family() && sites_.maker[n.inputs[1]].valid();
        });
    throw UserError({}, options_.path,
                    fmt::format("nothing in {} can be divided over {} ranks: it has no product "
                                "whose features another product takes in, and no vocabulary{}",
                                graph_.name, options_.ranks,
                                made_anew ? "; weights that forward makes anew, as those that "
                                            "prune masks or qat rounds, are not divided"
                                          : ""));
  }
  throw InternalError(graph_.name + " cannot be divided among ranks");
}

// Whether the graph divides over so many ranks.
bool PartitionPlanner::divides_over(int ranks) const {
  if (options_.divides % ranks != 0) return false;
  PartitionOptions other = options_;
  other.ranks = ranks;
  try {
    PartitionPlanner planner(graph_, other);
    for (int i = 0; i < partition_planner_detail::kMostAttempts; ++i) {
      planner.attempt();
      if (!planner.learnt_) return planner.problem_.empty();
    }
  } catch (const UserError&) {
  }
  return false;
}

// Returns "2 or 4": the sizes next to the one that is asked for over which everything divides and
// which the GPUs can be divided into.
std::string PartitionPlanner::nearest_sizes() const {
  // No more ranks than heads, of which each needs one; models without heads have no such limit.
  const bool limited = options_.group == MeshDimension::kTensor && most_heads_ > 0;
  const int limit = limited ? static_cast<int>(most_heads_) : std::numeric_limits<int>::max();
  int below = std::min(options_.ranks - 1, limit);
  while (below > 1 && !divides_over(below))
    --below;
  const int most = std::min(limit, options_.divides == 0 ? 2 * options_.ranks : options_.divides);
  int above = options_.ranks + 1;
  while (above <= most && !divides_over(above))
    ++above;
  return above <= most ? fmt::format("{} or {}", below, above) : fmt::format("{}", below);
}

void PartitionPlanner::attempt() {
  learnt_ = false;
  problem_.clear();
  result_ = {};
  result_.nodes.resize(graph_.nodes.size());
  result_.tensors.resize(graph_.tensors.size());
  result_.summed.resize(graph_.parameters.size(), 0);
  origins_.assign(graph_.tensors.size(), {});
  decided_.assign(graph_.tensors.size(), 0);
  joins_.assign(graph_.tensors.size(), 0);
  if (options_.group == MeshDimension::kContext) cut_inputs();
  for (NodeId id : ids_of(graph_.nodes))
    visit(id);
  check_outputs();
}

void PartitionPlanner::visit(NodeId id) {
  const OperatorFamily* family = graph_.nodes[id].family;
  const std::vector<Layout> inputs = inputs_of(id);
  if (options_.group == MeshDimension::kContext && visit_context(id, inputs)) return;
  if (family == &linear_family() || family == &grouped_linear_family())
    return visit_linear(id, inputs);
  if (family == &transpose_family() && visit_stacked_weight(id)) return;
  if (family == &bmm_family() && visit_stacked(id, inputs)) return;
  if (family == &embedding_family()) return visit_embedding(id, inputs);
  if (family == &log_softmax_family() && visit_scores(id, inputs)) return;
  if (family == &nll_loss_family() && visit_loss(id, inputs)) return;
  visit_plain(id, inputs);
}

// Layouts of a node's inputs as it may use them. Parameters count as whole: their readers decide.
std::vector<Layout> PartitionPlanner::inputs_of(NodeId id) {
  const Node& node = graph_.nodes[id];
  std::vector<Layout> inputs;
  for (TensorId in : node.inputs) {
    const bool is_parameter = in.valid() && sites_.parameter[in].valid();
    if (!in.valid() || is_parameter) {
      inputs.emplace_back();
    } else if (!result_.tensors[in] && enters_sequence(node, in)) {
      inputs.push_back(tokens_of(shape(in)));
    } else {
      inputs.push_back(result_.tensors[in]);
    }
  }
  return inputs;
}

// A sum of embeddings, before the first block.
bool PartitionPlanner::joins_outside(const Node& node) const {
  return node.family == &add_family() && graph_.block_of(node.layer) == kNoBlock;
}

// Whether a whole tensor is cut by tokens here: the stream of tokens before it enters the blocks.
bool PartitionPlanner::enters_sequence(const Node& node, TensorId input) const {
  if (!options_.sequence || shape(input).rank() != 3 || !graph_.tensors[input].requires_grad)
    return false;
  if (joins_[input] != 0) return !joins_outside(node);
  const NodeId maker = sites_.maker[input];
  return maker.valid() && graph_.block_of(node.layer) != kNoBlock &&
         graph_.block_of(graph_.nodes[maker].layer) == kNoBlock &&
         graph_.storages[graph_.tensors[input].storage].role == Role::kTemporary;
}

// [samples, length, width], or [rows, width] of experts.
Layout PartitionPlanner::tokens_of(const Shape& of) {
  const int axis = of.rank() - 2;
  const std::int64_t length = of[axis];
  if (length % options_.ranks != 0) {
    const bool first = problem_.empty();
    note(
        fmt::format("a sequence of {} does not divide over {} ranks, which sequence: true asks for",
                    length, options_.ranks));
    if (first) {
      advice_ = fmt::format("write a sequence of {}, sequence: false, or a size of ",
                            nearest_multiples(options_.ranks, length));
    }
    return {};
  }
  return Cut{.axis = axis, .whole = length, .part = length / options_.ranks, .tokens = true};
}

void PartitionPlanner::note(std::string problem) {
  if (!problem_.empty()) return;
  problem_ = std::move(problem);
  advice_ = "write a size of ";
}

void PartitionPlanner::reject(const std::vector<NodeId>& origins) {
  for (NodeId origin : origins) {
    learnt_ = learnt_ || rejected_[origin] == 0;
    rejected_[origin] = 1;
  }
}

// Fewer heads than ranks: several ranks have the same, where their number allows it.
void PartitionPlanner::share(TensorId tensor, std::int64_t extent) {
  most_heads_ = std::max(most_heads_, extent);
  // Not of the queries, which are all different.
  const bool possible =
      extent < most_heads_ && extent < options_.ranks && options_.ranks % extent == 0;
  if (!possible) {
    const std::string_view heads = extent < most_heads_ ? "key-value heads" : "heads";
    const bool exchanged = extent % options_.ranks == 0;  // by Ulysses
    note(exchanged
             ? fmt::format("{} {} on {} tensor ranks do not divide over the context ranks, too",
                           extent, heads, options_.ranks)
             : does_not_divide(extent, heads, options_.ranks));
    return;
  }
  const auto sharing = static_cast<int>(options_.ranks / extent);
  for (NodeId origin : origins_[tensor]) {
    if (sharing_[origin] == sharing) {  // their repeats cannot be divided
      note(does_not_divide(most_heads_, "heads", options_.ranks));
      continue;
    }
    learnt_ = true;
    sharing_[origin] = sharing;
  }
}

bool PartitionPlanner::is_free_parameter(TensorId tensor) const {
  return tensor.valid() && sites_.parameter[tensor].valid() && !whole_.contains(tensor);
}

void PartitionPlanner::decide(TensorId parameter, const Layout& layout) {
  Layout& known = result_.tensors[parameter];
  if (decided_[parameter] == 0) {
    known = layout;
    decided_[parameter] = 1;
  } else if (!(known == layout) && whole_.insert(parameter).second) {
    learnt_ = true;
  }
}

void PartitionPlanner::visit_plain(NodeId id, const std::vector<Layout>& inputs) {
  const Node& node = graph_.nodes[id];
  Passage passage = pass_through(graph_, id, inputs);
  if (passage.possible && inputs.size() == 1 && inputs[0] && passage.made[0] &&
      passage.made[0]->whole < inputs[0]->whole && node.family == &view_family()) {
    most_heads_ = std::max(most_heads_, passage.made[0]->whole);
  }
  if (!passage.possible) {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (!is_cut_by_features(inputs[i])) continue;
      if (passage.indivisible > 0) {
        share(node.inputs[i], passage.indivisible);
      } else {
        reject(origins_[node.inputs[i]]);
      }
    }
    passage = whole_passage(node);
  }
  finish(id, Treatment::kPlain, std::move(passage));
  if (joins_outside(node) && !result_.tensors[node.outputs[0]]) {
    for (TensorId in : node.inputs) {
      if (joins_[in] != 0) joins_[node.outputs[0]] = 1;
    }
  }
}

// Weights of a product, one for each expert of a grouped one.
std::span<const TensorId> PartitionPlanner::weights_of(const Node& node) const {
  const bool grouped = node.family == &grouped_linear_family();
  return std::span(node.inputs).subspan(1, grouped ? node.inputs.size() - 1 : 1);
}

bool PartitionPlanner::can_be_columns(NodeId id) const {
  const Node& node = graph_.nodes[id];
  const bool transposed = node.attributes.flag("transposed_weight");
  const std::span<const TensorId> weights = weights_of(node);
  if (node.attributes.text("adapter") == "down") return false;  // whole
  if (options_.group != MeshDimension::kTensor || rejected_[id] != 0 ||
      !std::all_of(weights.begin(), weights.end(),
                   [&](TensorId weight) { return is_free_parameter(weight); })) {
    return false;
  }
  // Classes are cut where they are a vocabulary.
  return id != sites_.logits || shape(node.inputs[1])[transposed ? 1 : 0] == sites_.vocabulary;
}

// The product takes in the features that are cut, with the rows of its weight that belong to them.
bool PartitionPlanner::visit_rows(NodeId id, const Cut& features, bool by_tokens) {
  const Node& node = graph_.nodes[id];
  const std::span<const TensorId> weights = weights_of(node);
  const int stacked = shape(weights.front()).rank() - 2;
  const int axis = stacked + (node.attributes.flag("transposed_weight") ? 0 : 1);
  const bool free = std::all_of(weights.begin(), weights.end(),
                                [&](TensorId weight) { return is_free_parameter(weight); });
  if (!free || features.outer != 1 || features.whole != shape(weights.front())[axis]) return false;
  // Keys that several ranks share lie in the weight of the queries.
  if (features.sharing > 1) {
    const int shared = options_.ranks / features.sharing;
    note(
        fmt::format("{} key-value head{} in one product with the queries do{} not divide over {} "
                    "ranks",
                    shared, shared == 1 ? "" : "s", shared == 1 ? "es" : "", options_.ranks));
  }
  Passage passage = whole_passage(node);
  passage.wanted[0] = features;
  for (std::size_t i = 1; i <= weights.size(); ++i)
    passage.wanted[i] = Cut{.axis = axis, .whole = features.whole, .part = features.part};
  if (by_tokens) passage.made[0] = tokens_of(shape(node.outputs[0]));
  finish(id, Treatment::kRows, std::move(passage));
  return true;
}

void PartitionPlanner::visit_columns(NodeId id) {
  const Node& node = graph_.nodes[id];
  const int stacked = shape(node.inputs[1]).rank() - 2;
  const int axis = stacked + (node.attributes.flag("transposed_weight") ? 1 : 0);
  const Shape& out = shape(node.outputs[0]);
  const std::int64_t features = out[-1];
  const int parts = options_.ranks / sharing_[id];
  Cut cut{.axis = out.rank() - 1,
          .whole = features,
          .part = part_or_one(features, parts),
          .sharing = sharing_[id],
          .classes = id == sites_.logits};
  if (cut.classes) {
    cut.part = vocabulary_part(features, options_);
  } else if (features % parts != 0) {
    note(does_not_divide(features, "features of a layer", options_.ranks) +
         fmt::format(" ({})", graph_.describe(id)));
  }
  Passage passage = whole_passage(node);
  passage.made[0] = cut;
  const std::size_t weights = weights_of(node).size();
  for (std::size_t i = 1; i < node.inputs.size(); ++i) {
    cut.axis = i <= weights ? axis : 0;  // behind the weight comes the bias
    if (node.inputs[i].valid()) passage.wanted[i] = cut;
  }
  finish(id, Treatment::kColumns, std::move(passage));
  origins_[node.outputs[0]] = {id};
}

void PartitionPlanner::visit_linear(NodeId id, std::vector<Layout> inputs) {
  const Node& node = graph_.nodes[id];
  const Shape& out = shape(node.outputs[0]);
  const bool grouped = node.family == &grouped_linear_family();
  if (is_cut_by_features(inputs[0]) && inputs[0]->axis == out.rank() - 1) {
    const bool by_tokens = options_.sequence && (out.rank() == 3 || grouped);
    if (visit_rows(id, *inputs[0], by_tokens)) return;
    reject(origins_[node.inputs[0]]);
    inputs[0].reset();
  }
  if (can_be_columns(id) && !is_cut_by_features(inputs[0])) return visit_columns(id);
  Passage passage = whole_passage(node);
  passage.wanted[0] = passage.made[0] = inputs[0];
  finish(id, Treatment::kPlain, std::move(passage));
}

void PartitionPlanner::finish(NodeId id, Treatment treatment, Passage passage) {
  const Node& node = graph_.nodes[id];
  NodePartition& part = result_.nodes[id];
  const bool divides = partition_planner_detail::has_cut(passage.made);
  part.treatment = treatment;
  part.sums.assign(node.inputs.size(), 0);
  std::vector<NodeId> origins;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    const TensorId in = node.inputs[i];
    if (!in.valid()) continue;
    const bool whole = !passage.wanted[i].has_value();
    const bool sums = whole && divides && graph_.tensors[in].requires_grad;
    if (!sites_.parameter[in].valid()) {
      part.sums[i] = sums ? 1 : 0;
      origins.insert(origins.end(), origins_[in].begin(), origins_[in].end());
      continue;
    }
    // Tokens of a parameter are taken from the whole: it is cut by features only.
    const bool cut = is_cut_by_features(passage.wanted[i]) && !whole_.contains(in);
    decide(in, cut ? passage.wanted[i] : Layout());
    if (sums) result_.summed[sites_.parameter[in]] = 1;
  }
  std::sort(origins.begin(), origins.end());
  origins.erase(std::unique(origins.begin(), origins.end()), origins.end());
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    result_.tensors[node.outputs[i]] = passage.made[i];
    if (is_cut_by_features(passage.made[i])) origins_[node.outputs[i]] = origins;
  }
  part.wanted = std::move(passage.wanted);
  part.made = std::move(passage.made);
}

// The caller gets whole outputs, but for the logits of a vocabulary.
void PartitionPlanner::check_outputs() {
  std::vector<TensorId> outputs = graph_.other_outputs;
  if (graph_.logits.valid()) outputs.push_back(graph_.logits);
  for (TensorId out : outputs) {
    const Layout& layout = result_.tensors[out];
    if (is_cut_by_features(layout) && !layout->classes) reject(origins_[out]);
  }
}

}  // namespace tidemark
