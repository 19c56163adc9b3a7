#include "graph/rewrite/partition/divide_experts.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "graph/core/errors.hpp"
#include "graph/models/routing.hpp"
#include "graph/operators/communication/collectives.hpp"
#include "graph/operators/communication/expert_rows.hpp"
#include "graph/operators/known_families.hpp"
#include "graph/rewrite/graph_copy.hpp"
#include "graph/rewrite/partition/partition_errors.hpp"

namespace tidemark {
namespace divide_experts_detail {
namespace {

// One expert of a loop: the nodes between taking its tokens and weighting what it made.
struct Expert {
  NodeId state;     // takes the rows of its tokens
  NodeId computed;  // the last of its own nodes
};

struct Mixture {
  NodeId first;  // makes the zeros to which the experts' results are added
  NodeId last;   // adds those of the last expert
  TensorId hidden;
  TensorId weights;  // [tokens, choices]
  std::vector<Expert> experts;
};

class Loops {
 public:
  explicit Loops(const Graph& graph) : graph_(graph), maker_(graph.tensors.size()) {
    for (NodeId id : ids_of(graph.nodes)) {
      for (TensorId out : graph.nodes[id].outputs)
        maker_[out] = id;
    }
  }

  // Returns the mixtures by their last node.
  [[nodiscard]] std::vector<Mixture> find() const {
    std::map<TensorId, Mixture> open;  // by the sum so far
    for (NodeId id : ids_of(graph_.nodes)) {
      const Node& node = graph_.nodes[id];
      if (node.family != &index_add_family()) continue;
      const TensorId target = node.inputs[0];
      Mixture mixture;
      const auto known = open.find(target);
      if (known != open.end()) {
        mixture = known->second;
        open.erase(known);
      } else if (made_by(new_zeros_family(), target)) {
        mixture.first = maker_[target];
      } else {
        continue;
      }
      if (!add_expert(node, mixture)) continue;
      mixture.last = id;
      open.emplace(node.outputs[0], std::move(mixture));
    }
    std::vector<Mixture> found;
    found.reserve(open.size());
    for (auto& [sum, mixture] : open)
      found.push_back(std::move(mixture));
    return found;
  }

 private:
  [[nodiscard]] bool made_by(const OperatorFamily& family, TensorId tensor) const {
    return maker_[tensor].valid() && graph_.nodes[maker_[tensor]].family == &family;
  }
  [[nodiscard]] const Node& maker_of(TensorId tensor) const { return graph_.nodes[maker_[tensor]]; }

  // index_add(sum, rows, expert(hidden[rows]) * weights[rows, choice]).
  [[nodiscard]] bool add_expert(const Node& sum, Mixture& mixture) const {
    const TensorId weighted = sum.inputs[2];
    if (!made_by(mul_family(), weighted)) return false;
    const TensorId computed = maker_of(weighted).inputs[0];
    TensorId weight = maker_of(weighted).inputs[1];
    if (made_by(view_family(), weight)) weight = maker_of(weight).inputs[0];
    if (!made_by(index_family(), weight) || !maker_[computed].valid()) return false;
    // The expert's nodes follow the one that takes its rows.
    NodeId state = maker_[computed];
    while (state > mixture.first && !takes_rows(state, sum.inputs[1]))
      state = NodeId(state.value - 1);
    if (state == mixture.first) return false;
    mixture.hidden = graph_.nodes[state].inputs[0];
    mixture.weights = maker_of(weight).inputs[0];
    mixture.experts.push_back({state, maker_[computed]});
    return true;
  }
  [[nodiscard]] bool takes_rows(NodeId id, TensorId rows) const {
    const Node& node = graph_.nodes[id];
    return node.family == &index_family() && node.inputs.size() == 2 && node.inputs[1] == rows;
  }

  const Graph& graph_;
  IdVector<TensorId, NodeId> maker_;
};

class Dispatch {
 public:
  Dispatch(GraphCopy& copy, const ExpertOptions& options) : copy_(copy), options_(options) {}
  void build(const Mixture& mixture);

 private:
  TensorId add(const OperatorFamily& family, std::vector<TensorId> inputs, Attributes attributes) {
    const NodeId added =
        copy_.result().add_node(family, std::move(inputs), std::move(attributes), layer_);
    return copy_.result().output(added);
  }
  [[nodiscard]] Attributes rows(std::int64_t count) const {
    Attributes attributes = collective_attributes(MeshDimension::kExpert, options_.ranks);
    attributes.set("rows", count);
    if (!options_.capacity_factor) attributes.set("host_sizes", std::int64_t{1});
    return attributes;
  }
  [[nodiscard]] TensorId compute(const Mixture& mixture, std::size_t local, TensorId x);

  GraphCopy& copy_;
  const ExpertOptions& options_;
  LayerId layer_;
};

// The nodes of the first expert, with the weights of all experts of the rank.
TensorId Dispatch::compute(const Mixture& mixture, std::size_t local, TensorId x) {
  const Graph& source = copy_.source();
  const Expert& first = mixture.experts.front();
  std::map<TensorId, TensorId> made{{source.output(first.state), x}};
  TensorId result = x;
  for (NodeId id(first.state.value + 1); id <= first.computed; id = NodeId(id.value + 1)) {
    const Node& node = source.nodes[id];
    std::vector<TensorId> inputs;
    for (TensorId in : node.inputs) {
      const auto known = in.valid() ? made.find(in) : made.end();
      inputs.push_back(known != made.end() ? known->second : copy_.at(in));
    }
    const OperatorFamily* family = node.family;
    if (family == &linear_family()) {
      family = &grouped_linear_family();
      inputs.resize(1);
      for (std::size_t i = 0; i < local; ++i) {
        const NodeId same(mixture.experts[i].state.value + (id.value - first.state.value));
        inputs.push_back(copy_.at(source.nodes[same].inputs[1]));
      }
    }
    layer_ = node.layer;
    result = add(*family, std::move(inputs), node.attributes);
    made[source.output(id)] = result;
  }
  return result;
}

void Dispatch::build(const Mixture& mixture) {
  const Graph& source = copy_.source();
  const LayerId layer = source.nodes[mixture.last].layer;
  const auto experts = static_cast<std::int64_t>(mixture.experts.size());
  const auto local = static_cast<std::size_t>(experts / options_.ranks);
  const TensorId hidden = copy_.at(mixture.hidden);
  const TensorId weights = copy_.at(mixture.weights);
  const Shape choices = copy_.result().tensors[weights].shape;
  const std::int64_t chosen = choices[0] * choices[1];
  std::int64_t sent = chosen;
  if (options_.capacity_factor) {
    const double each =
        static_cast<double>(chosen) / static_cast<double>(experts) * *options_.capacity_factor;
    sent = experts * std::max<std::int64_t>(1, static_cast<std::int64_t>(std::ceil(each)));
  }
  const auto received = static_cast<std::int64_t>(std::ceil(
      static_cast<double>(sent) * (options_.capacity_factor ? 1.0 : 1.0 + options_.imbalance)));
  layer_ = layer;
  TensorId x = add(permute_rows_family(), {hidden}, {{"rows", sent}});
  x = add(exchange_rows_family(), {x}, rows(received));
  if (local > 1) x = add(sort_rows_family(), {x}, {});
  x = compute(mixture, local, x);
  layer_ = layer;
  if (local > 1) x = add(sort_rows_family(), {x}, {});
  Attributes back = rows(sent);
  back.set("host_sizes", std::int64_t{0});
  x = add(exchange_rows_family(), {x}, std::move(back));
  copy_.replace(mixture.last, std::array{add(combine_rows_family(), {x, weights}, {})});
}

void check(const Graph& graph, const std::vector<Mixture>& mixtures, const ExpertOptions& options) {
  if (mixtures.empty()) {
    throw UserError({}, options.path,
                    graph.name + " has no mixture of experts that could be divided");
  }
  for (const Mixture& mixture : mixtures) {
    const auto experts = static_cast<std::int64_t>(mixture.experts.size());
    if (experts % options.ranks != 0) {
      throw UserError(
          {}, options.path,
          fmt::format("{}; write a size of {}", does_not_divide(experts, "experts", options.ranks),
                      nearest_divisors(experts, options.ranks)));
    }
  }
}

// Marks the parameters of a mixture's experts, and drops those of experts on other ranks: a rank
// has the first `local` ones.
void drop_remote_experts(const Graph& graph, const IdVector<TensorId, ParameterId>& parameter,
                         const Mixture& mixture, std::size_t local, GraphCopy& copy) {
  for (std::size_t i = 0; i < mixture.experts.size(); ++i) {
    const Expert& expert = mixture.experts[i];
    for (NodeId id = expert.state; id <= expert.computed; id = NodeId(id.value + 1)) {
      for (TensorId in : graph.nodes[id].inputs) {
        if (!in.valid() || !parameter[in].valid()) continue;
        copy.result().parameters[parameter[in]].of_expert = true;
        if (i >= local) copy.drop_root(in);
      }
    }
  }
}

}  // namespace
}  // namespace divide_experts_detail

Graph divide_experts(const Graph& graph, const ExpertOptions& options) {
  using divide_experts_detail::Mixture;
  const std::vector<Mixture> mixtures = divide_experts_detail::Loops(graph).find();
  divide_experts_detail::check(graph, mixtures, options);
  GraphCopy copy(graph);
  // By node of the source: the mixture whose loop it belongs to.
  IdVector<NodeId, const Mixture*> loop(graph.nodes.size(), nullptr);
  IdVector<TensorId, ParameterId> parameter(graph.tensors.size());
  for (ParameterId id : ids_of(graph.parameters))
    parameter[graph.parameters[id].tensor] = id;
  for (const Mixture& mixture : mixtures) {
    for (NodeId id = mixture.first; id <= mixture.last; id = NodeId(id.value + 1))
      loop[id] = &mixture;
    const std::size_t local = mixture.experts.size() / static_cast<std::size_t>(options.ranks);
    divide_experts_detail::drop_remote_experts(graph, parameter, mixture, local, copy);
  }
  return rewrite_graph(copy, [&](GraphCopy& of, NodeId id) {
    const Mixture* mixture = loop[id];
    if (mixture == nullptr) {
      of.keep(id);
    } else if (id == mixture->last) {
      divide_experts_detail::Dispatch(of, options).build(*mixture);
    } else {
      // Nothing reads what the loop makes on its way.
      const std::vector<TensorId> placeholders(graph.nodes[id].outputs.size(),
                                               of.at(mixture->hidden));
      of.replace(id, placeholders);
    }
  });
}

}  // namespace tidemark
