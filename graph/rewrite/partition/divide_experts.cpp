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
#include "graph/rewrite/partition/partition_sites.hpp"

namespace tidemark {
namespace divide_experts_detail {
namespace {

// One expert of a loop, or all of those whose weights are stacked: the nodes between taking the
// tokens' rows and weighting what was made.
struct Expert {
  NodeId state;     // takes the rows of the tokens
  NodeId computed;  // the last of its own nodes
};

struct Mixture {
  NodeId first;  // the first node of what is replaced
  NodeId last;   // adds the results of the last expert
  TensorId hidden;
  TensorId weights;  // [tokens, choices]
  std::vector<Expert> experts;
  std::int64_t stacked = 0;  // experts whose weights are one parameter; 0: they have their own
  [[nodiscard]] std::int64_t count() const {
    return stacked > 0 ? stacked : static_cast<std::int64_t>(experts.size());
  }
};

class Mixtures {
 public:
  Mixtures(const Graph& graph, const PartitionSites& sites) : graph_(graph), sites_(sites) {}

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
        mixture.first = sites_.maker[target];
      } else {
        continue;
      }
      if (!add_expert(node, mixture) && !find_stacked(node, mixture)) continue;
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
    return sites_.maker[tensor].valid() && graph_.nodes[sites_.maker[tensor]].family == &family;
  }
  [[nodiscard]] const Node& maker_of(TensorId tensor) const {
    return graph_.nodes[sites_.maker[tensor]];
  }

  // Returns what a view shows.
  [[nodiscard]] TensorId viewed(TensorId tensor) const {
    return made_by(view_family(), tensor) ? maker_of(tensor).inputs[0] : tensor;
  }

  // index_add(sum, rows, expert(hidden[rows]) * weights[rows, choice]).
  [[nodiscard]] bool add_expert(const Node& sum, Mixture& mixture) const {
    const TensorId weighted = sum.inputs[2];
    if (!made_by(mul_family(), weighted)) return false;
    const TensorId computed = maker_of(weighted).inputs[0];
    const TensorId weight = viewed(maker_of(weighted).inputs[1]);
    if (!made_by(index_family(), weight) || !sites_.maker[computed].valid()) return false;
    // The expert's nodes follow the one that takes its rows.
    NodeId state = sites_.maker[computed];
    while (state > mixture.first && !takes_rows(state, sum.inputs[1]))
      state = NodeId(state.value - 1);
    if (state <= mixture.first) return false;
    mixture.hidden = graph_.nodes[state].inputs[0];
    mixture.weights = maker_of(weight).inputs[0];
    mixture.experts.push_back({state, sites_.maker[computed]});
    return true;
  }
  // The same, with all experts' products in one:
  //
  //   chosen = nonzero(mask); rows = chosen[:, 2]; y = hidden[rows].view(experts, -1, width)
  //   y = bmm(act(bmm(y, gate_up^T)), down^T).view(-1, width)
  [[nodiscard]] bool find_stacked(const Node& sum, Mixture& mixture) const {
    const TensorId weighted = sum.inputs[2];
    if (!made_by(narrow_family(), sum.inputs[1]) || !made_by(mul_family(), weighted)) return false;
    const NodeId chosen = sites_.maker[maker_of(sum.inputs[1]).inputs[0]];
    const NodeId computed = sites_.maker[viewed(maker_of(weighted).inputs[0])];
    const TensorId weight = viewed(maker_of(weighted).inputs[1]);
    if (!made_by(index_family(), weight) || !chosen.valid() || !computed.valid()) return false;
    NodeId state = computed;
    while (state > chosen && !takes_rows(state, sum.inputs[1]))
      state = NodeId(state.value - 1);
    if (state <= chosen) return false;
    std::int64_t experts = 0;
    for (NodeId id(state.value + 1); id <= computed; id = NodeId(id.value + 1)) {
      const StackedWeight stacked = sites_.stacked_weight(graph_, id);
      if (!stacked.weight.valid()) continue;
      const std::int64_t here = graph_.tensors[stacked.weight].shape[0];
      if (experts != 0 && here != experts) return false;
      experts = here;
    }
    if (experts == 0) return false;
    mixture = {.first = chosen,
               .hidden = graph_.nodes[state].inputs[0],
               .weights = maker_of(weight).inputs[0],
               .experts = {{state, computed}},
               .stacked = experts};
    return true;
  }
  [[nodiscard]] bool takes_rows(NodeId id, TensorId rows) const {
    const Node& node = graph_.nodes[id];
    return node.family == &index_family() && node.inputs.size() == 2 && node.inputs[1] == rows;
  }

  const Graph& graph_;
  const PartitionSites& sites_;
};

class Dispatch {
 public:
  Dispatch(GraphCopy& copy, const PartitionSites& sites, const ExpertOptions& options)
      : copy_(copy), sites_(sites), options_(options) {}
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
  [[nodiscard]] TensorId compute_stacked(const Mixture& mixture, TensorId x);

  GraphCopy& copy_;
  const PartitionSites& sites_;
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

// The same nodes on the rank's rows: products of batches become products of rows with the weight of
// their expert.
TensorId Dispatch::compute_stacked(const Mixture& mixture, TensorId x) {
  const Graph& source = copy_.source();
  const Expert& all = mixture.experts.front();
  std::map<TensorId, TensorId> made{{source.output(all.state), x}};
  for (NodeId id(all.state.value + 1); id <= all.computed; id = NodeId(id.value + 1)) {
    const Node& node = source.nodes[id];
    layer_ = node.layer;
    const TensorId first = node.inputs.front();
    if (node.family == &view_family() && made.contains(first)) {
      made[node.outputs.front()] = made[first];
      continue;
    }
    if (node.family == &transpose_family() && sites_.parameter[first].valid()) continue;
    std::vector<TensorId> inputs;
    for (TensorId in : node.inputs) {
      const auto known = in.valid() ? made.find(in) : made.end();
      inputs.push_back(known != made.end() ? known->second : TensorId());
    }
    const OperatorFamily* family = node.family;
    Attributes attributes = node.attributes;
    if (const StackedWeight stacked = sites_.stacked_weight(source, id); stacked.weight.valid()) {
      family = &grouped_linear_family();
      inputs[1] = copy_.at(stacked.weight);
    } else if (attributes.integer("axis", 0) > 0) {
      attributes.set("axis", std::int64_t{-1});  // the features, behind one axis less
    }
    const NodeId added =
        copy_.result().add_node(*family, std::move(inputs), std::move(attributes), layer_);
    for (std::size_t i = 0; i < node.outputs.size(); ++i)
      made[node.outputs[i]] = copy_.result().nodes[added].outputs[i];
  }
  return made.at(source.output(all.computed));
}

void Dispatch::build(const Mixture& mixture) {
  const Graph& source = copy_.source();
  const LayerId layer = source.nodes[mixture.last].layer;
  const std::int64_t experts = mixture.count();
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
  x = mixture.stacked > 0 ? compute_stacked(mixture, x) : compute(mixture, local, x);
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
    const std::int64_t experts = mixture.count();
    if (experts % options.ranks != 0) {
      throw UserError(
          {}, options.path,
          fmt::format("{}; write a size of {}", does_not_divide(experts, "experts", options.ranks),
                      nearest_divisors(experts, options.divides, options.ranks)));
    }
  }
}

// Marks the parameters of a mixture's experts, and drops those of experts on other ranks: a rank
// has the first `local` ones.
void drop_remote_experts(const Graph& graph, const PartitionSites& sites, const Mixture& mixture,
                         std::size_t local, GraphCopy& copy) {
  const auto& parameter = sites.parameter;
  for (std::size_t i = 0; i < mixture.experts.size(); ++i) {
    const Expert& expert = mixture.experts[i];
    for (NodeId id = expert.state; id <= expert.computed; id = NodeId(id.value + 1)) {
      for (TensorId in : graph.nodes[id].inputs) {
        if (!in.valid() || !parameter[in].valid()) continue;
        copy.result().parameters[parameter[in]].of_expert = true;
        if (mixture.stacked > 0) {
          Shape shape = graph.tensors[in].shape;
          shape[0] = static_cast<std::int64_t>(local);
          copy.reshape_root(in, shape);
        } else if (i >= local) {
          copy.drop_root(in);
        }
      }
    }
  }
}

}  // namespace
}  // namespace divide_experts_detail

Graph divide_experts(const Graph& graph, const ExpertOptions& options) {
  using divide_experts_detail::Mixture;
  const PartitionSites sites = find_sites(graph);
  const std::vector<Mixture> mixtures = divide_experts_detail::Mixtures(graph, sites).find();
  divide_experts_detail::check(graph, mixtures, options);
  GraphCopy copy(graph);
  // By node of the source: the mixture whose loop it belongs to.
  IdVector<NodeId, const Mixture*> loop(graph.nodes.size(), nullptr);
  for (const Mixture& mixture : mixtures) {
    for (NodeId id = mixture.first; id <= mixture.last; id = NodeId(id.value + 1))
      loop[id] = &mixture;
    const auto local = static_cast<std::size_t>(mixture.count() / options.ranks);
    divide_experts_detail::drop_remote_experts(graph, sites, mixture, local, copy);
  }
  return rewrite_graph(copy, [&](GraphCopy& of, NodeId id) {
    const Mixture* mixture = loop[id];
    if (mixture == nullptr) {
      of.keep(id);
    } else if (id == mixture->last) {
      divide_experts_detail::Dispatch(of, sites, options).build(*mixture);
    } else {
      // Nothing reads what the loop makes on its way.
      const std::vector<TensorId> placeholders(graph.nodes[id].outputs.size(),
                                               of.at(mixture->hidden));
      of.replace(id, placeholders);
    }
  });
}

}  // namespace tidemark
