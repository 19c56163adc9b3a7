// Structured pruning: which layers can be narrowed, and the graph with narrower ones.
//
//   linear [a] -> relu -> linear     the features `a` are rows of the first weight and columns of
//                                    the second: both are cut
//   x + linear [a]                   `a` is the width of the residual stream: it stays
#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "graph/core/errors.hpp"
#include "graph/operators/known_families.hpp"
#include "graph/rewrite/graph_copy.hpp"
#include "graph/rewrite/packed_weights.hpp"
#include "policies/adapt/product_weights.hpp"
#include "policies/adapt/prune.hpp"

namespace tidemark {
namespace remove_features_detail {
namespace {

// Sets of feature axes that must be cut together, by union-find. Set 0 is that of axes that stay.
class FeatureSets {
 public:
  FeatureSets() { parent_.push_back(0); }
  [[nodiscard]] int add() {
    parent_.push_back(static_cast<int>(parent_.size()));
    return parent_.back();
  }
  [[nodiscard]] int find(int set) const {
    while (parent_[static_cast<std::size_t>(set)] != set)
      set = parent_[static_cast<std::size_t>(set)];
    return set;
  }
  void join(int a, int b) {
    const int low = std::min(find(a), find(b));
    parent_[static_cast<std::size_t>(std::max(find(a), find(b)))] = low;
  }
  void keep_whole(int set) { join(set, 0); }

 private:
  std::vector<int> parent_;
};

constexpr int kNoFeatures = -1;

bool acts_on_elements(const OperatorFamily& family) {
  static const std::array families = {&relu_family(), &gelu_family(),       &silu_family(),
                                      &tanh_family(), &sigmoid_family(),    &dropout_family(),
                                      &cast_family(), &scale_family(),      &add_scalar_family(),
                                      &pow_family(),  &softplus_family(),   &hardswish_family(),
                                      &elu_family(),  &leaky_relu_family(), &add_family(),
                                      &mul_family(),  &max_pool2d_family(), &avg_pool2d_family()};
  return std::find(families.begin(), families.end(), &family) != families.end();
}

bool is_plain_product(const Node& node) {
  const bool linear = node.family == &linear_family();
  const bool convolution = is_convolution(*node.family) &&
                           !is_transposed_convolution(*node.family) &&
                           node.attributes.integer("groups", 1) == 1;
  return multiplies_weight(node) && (linear || convolution);
}

class FeatureRemoval {
 public:
  FeatureRemoval(const Graph& graph, const NamePatterns& patterns, double amount)
      : graph_(graph), amount_(amount), weights_(product_weights(graph, patterns, "prune")) {
    set_of_.assign(graph.tensors.size(), kNoFeatures);
    uses_.assign(graph.tensors.size(), 0);
    for (const Node& node : graph.nodes) {
      for (TensorId in : node.inputs) {
        if (in.valid()) ++uses_[in];
      }
    }
    for (const Node& node : graph.nodes)
      follow(node);
    for (TensorId output : {graph.logits, graph.loss})
      keep_whole(output);
    for (TensorId output : graph.other_outputs)
      keep_whole(output);
  }

  Graph run() {
    GraphCopy copy(graph_);
    int narrowed = 0;
    for (const Node& node : graph_.nodes)
      narrowed += narrow(copy, node) ? 1 : 0;
    if (narrowed == 0) {
      throw UserError({}, "policies.prune.method",
                      fmt::format("no layer of '{}' that matches can lose features: they are added "
                                  "to a residual stream, form heads or are the model's output",
                                  graph_.name));
    }
    return rewrite_graph(copy, [](GraphCopy& c, NodeId id) { c.keep(id); });
  }

 private:
  void keep_whole(TensorId tensor) {
    if (tensor.valid() && set_of_[tensor] != kNoFeatures) sets_.keep_whole(set_of_[tensor]);
  }

  // Follows the feature axis (the last of a linear layer, axis 1 of a convolution) through a node.
  void follow(const Node& node) {
    if (is_plain_product(node)) {
      const TensorId weight = node.inputs[kProductWeight];
      int& made = set_of_[node.outputs.front()];
      made = sets_.add();
      // A tied weight, or one that is not to be pruned, stays.
      if (!weights_[weight].valid() || uses_[weight] != 1) sets_.keep_whole(made);
      // Without an own weight's columns to cut, what it reads stays as well.
      if (uses_[weight] != 1) keep_whole(node.inputs.front());
      return;
    }
    const bool passes = acts_on_elements(*node.family) || node.family == &batch_norm_family() ||
                        node.family == &update_running_stats_family();
    int joined = kNoFeatures;
    bool whole = !passes;
    for (TensorId in : node.inputs) {
      if (!in.valid() || is_root(in)) continue;
      if (set_of_[in] == kNoFeatures) {
        whole = true;  // it is combined with features of unknown origin
        continue;
      }
      if (joined == kNoFeatures) joined = set_of_[in];
      sets_.join(joined, set_of_[in]);
    }
    if (joined == kNoFeatures) return;
    if (whole) {
      sets_.keep_whole(joined);
      for (TensorId in : node.inputs) {
        if (in.valid()) keep_whole(in);
      }
      return;
    }
    for (TensorId out : node.outputs)
      set_of_[out] = joined;
  }

  [[nodiscard]] bool is_root(TensorId tensor) const {
    return graph_.storages[graph_.tensors[tensor].storage].role != Role::kTemporary;
  }
  [[nodiscard]] bool is_cut(TensorId tensor) const {
    return set_of_[tensor] != kNoFeatures && sets_.find(set_of_[tensor]) != 0;
  }
  // At least one feature stays.
  [[nodiscard]] std::int64_t kept(std::int64_t features) const {
    const auto removed =
        static_cast<std::int64_t>(std::llround(amount_ * static_cast<double>(features)));
    return std::max<std::int64_t>(features - removed, 1);
  }

  void cut_vector(GraphCopy& copy, TensorId vector) const {
    if (vector.valid() && is_root(vector) && graph_.tensors[vector].shape.rank() == 1)
      copy.reshape_root(vector, {kept(graph_.tensors[vector].shape[0])});
  }

  // Returns whether the node's layer loses output features.
  bool narrow(GraphCopy& copy, const Node& node) const {
    if (is_plain_product(node)) {
      const TensorId weight = node.inputs[kProductWeight];
      Shape shape = graph_.tensors[weight].shape;
      const int out = node.attributes.flag("transposed_weight") ? 1 : 0;  // of a linear layer
      const bool outputs = is_cut(node.outputs.front());
      if (outputs) shape[out] = kept(shape[out]);
      if (is_cut(node.inputs.front())) shape[1 - out] = kept(shape[1 - out]);
      if (!(shape == graph_.tensors[weight].shape)) copy.reshape_root(weight, shape);
      if (outputs && node.inputs.size() > 2) cut_vector(copy, node.inputs[2]);
      return outputs;
    }
    const bool normalises = node.family == &batch_norm_family();
    if (normalises && is_cut(node.inputs.front())) {
      for (TensorId in : node.inputs)
        cut_vector(copy, in);
    }
    return false;
  }

  const Graph& graph_;
  double amount_;
  IdVector<TensorId, ParameterId> weights_;
  IdVector<TensorId, int> set_of_;  // features of each tensor that nodes make
  IdVector<TensorId, int> uses_;
  FeatureSets sets_;
};

}  // namespace
}  // namespace remove_features_detail

Graph remove_features(const Graph& graph, const NamePatterns& patterns, double amount) {
  const bool made = std::any_of(graph.nodes.begin(), graph.nodes.end(), [&](const Node& node) {
    if (!multiplies_weight(node)) return false;
    const StorageId weight = graph.tensors[node.inputs[kProductWeight]].storage;
    return graph.storages[weight].role == Role::kTemporary;
  });
  if (made || has_packed_weights(graph)) {
    throw UserError({}, "policies.prune.method",
                    "structured removes features of weights that nothing has changed yet: list it "
                    "before what masks (prune), packs (2:4) or rounds (qat) them");
  }
  return remove_features_detail::FeatureRemoval(graph, patterns, amount).run();
}

}  // namespace tidemark
