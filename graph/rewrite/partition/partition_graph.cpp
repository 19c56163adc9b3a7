#include "graph/rewrite/partition/partition_graph.hpp"

#include <array>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "graph/core/errors.hpp"
#include "graph/operators/communication/collectives.hpp"
#include "graph/operators/communication/ring_attention.hpp"
#include "graph/operators/communication/vocabulary.hpp"
#include "graph/operators/known_families.hpp"
#include "graph/rewrite/graph_copy.hpp"
#include "graph/rewrite/partition/cut_rules.hpp"
#include "graph/rewrite/partition/group_key_heads.hpp"
#include "graph/rewrite/partition/partition_sites.hpp"
#include "graph/rewrite/vocabulary_loss.hpp"

namespace tidemark {
namespace partition_graph_detail {
namespace {

class Divided {
 public:
  Divided(GraphCopy& copy, const Partition& partition, const PartitionOptions& options)
      : copy_(copy), source_(copy.source()), partition_(partition), options_(options) {
    parameter_.resize(source_.tensors.size());
    for (ParameterId id : ids_of(source_.parameters))
      parameter_[source_.parameters[id].tensor] = id;
  }

  void rewrite(NodeId id);

 private:
  TensorId add(const OperatorFamily& family, std::vector<TensorId> inputs, Attributes attributes,
               LayerId layer) {
    const NodeId added =
        copy_.result().add_node(family, std::move(inputs), std::move(attributes), layer);
    return copy_.result().output(added);
  }
  [[nodiscard]] Attributes collective() const {
    return collective_attributes(options_.group, options_.ranks);
  }
  [[nodiscard]] Attributes along(int axis, std::int64_t extent) const {
    Attributes attributes = collective();
    attributes.set("axis", std::int64_t{axis});
    attributes.set("extent", extent);
    return attributes;
  }
  [[nodiscard]] TensorId converted(TensorId of_source, const Layout& wanted, bool sums,
                                   const Node& reader);
  [[nodiscard]] TensorId convert(TensorId of_source, const Layout& wanted, bool sums,
                                 LayerId layer);
  [[nodiscard]] TensorId gather(TensorId part, TensorId of_source, bool sums, LayerId layer);
  [[nodiscard]] TensorId take_part(TensorId whole, const Shape& shape, const Cut& cut,
                                   LayerId layer);
  [[nodiscard]] TensorId summed(TensorId partial, const Layout& made, LayerId layer);
  void keep_rows(NodeId id, std::vector<TensorId> inputs);
  void keep_loss(NodeId id, const std::vector<TensorId>& inputs);
  void keep_attention(NodeId id, std::vector<TensorId> inputs);

  GraphCopy& copy_;
  const Graph& source_;
  const Partition& partition_;
  const PartitionOptions& options_;
  IdVector<TensorId, ParameterId> parameter_;  // of the source's tensors
  // Conversions of a tensor, by the axis that is cut (-1: none), whether gradients are summed, and
  // the block of the reader: what is gathered for one block is gathered again for the next.
  std::map<std::tuple<TensorId, int, bool, int>, TensorId> known_;
};

TensorId Divided::converted(TensorId of_source, const Layout& wanted, bool sums,
                            const Node& reader) {
  if (partition_.tensors[of_source] == wanted && !sums) return copy_.at(of_source);
  const std::tuple key{of_source, wanted ? wanted->axis : -1, sums, source_.block_of(reader.layer)};
  const auto known = known_.find(key);
  if (known != known_.end()) return known->second;
  const TensorId result = convert(of_source, wanted, sums, reader.layer);
  known_.emplace(key, result);
  return result;
}

TensorId Divided::convert(TensorId of_source, const Layout& wanted, bool sums, LayerId layer) {
  const Layout& from = partition_.tensors[of_source];
  TensorId tensor = copy_.at(of_source);
  const bool backward = copy_.result().tensors[tensor].requires_grad;
  if (from == wanted) {
    const bool adds = backward && !from && options_.group == MeshDimension::kTensor;
    return adds ? add(copy_to_ranks_family(), {tensor}, collective(), layer) : tensor;
  }
  if (from) {
    tensor = gather(tensor, of_source, sums && !wanted, layer);
    if (!wanted) return tensor;
  }
  return take_part(tensor, source_.tensors[of_source].shape, *wanted, layer);
}

TensorId Divided::gather(TensorId part, TensorId of_source, bool sums, LayerId layer) {
  const Cut& cut = *partition_.tensors[of_source];
  if (cut.spread || cut.sharing > 1) {
    throw InternalError("the parts of a tensor that ranks share cannot be gathered");
  }
  const OperatorFamily& family = sums ? all_gather_family() : gather_whole_family();
  return add(family, {part}, along(cut.axis, source_.tensors[of_source].shape[cut.axis]), layer);
}

// A constant is looked at in part; gradients of the parts are gathered.
TensorId Divided::take_part(TensorId whole, const Shape& shape, const Cut& cut, LayerId layer) {
  const std::int64_t extent = local_shape(shape, cut)[cut.axis];
  if (copy_.result().tensors[whole].requires_grad)
    return add(take_part_family(), {whole}, along(cut.axis, extent), layer);
  return add(*find_family("narrow"), {whole},
             {{"axis", std::int64_t{cut.axis}}, {"length", extent}}, layer);
}

TensorId Divided::summed(TensorId partial, const Layout& made, LayerId layer) {
  if (!made) return add(all_reduce_family(), {partial}, collective(), layer);
  const Shape& shape = copy_.result().tensors[partial].shape;
  return add(reduce_scatter_family(), {partial},
             along(made->axis, local_shape(shape, made)[made->axis]), layer);
}

// The bias is added once, to the sum.
void Divided::keep_rows(NodeId id, std::vector<TensorId> inputs) {
  const Node& node = source_.nodes[id];
  const bool biased = node.family == &linear_family() && inputs.size() > 2;
  const TensorId bias = biased ? std::exchange(inputs[2], TensorId()) : TensorId();
  const Layout& made = partition_.nodes[id].made[0];
  TensorId result =
      summed(add(*node.family, std::move(inputs), node.attributes, node.layer), made, node.layer);
  if (bias.valid())
    result = add(*find_family("add"), {result, bias}, {{"in_place", std::int64_t{1}}}, node.layer);
  copy_.replace(id, std::array{result});
}

void Divided::keep_loss(NodeId id, const std::vector<TensorId>& inputs) {
  const LayerId layer = source_.nodes[id].layer;
  const TensorId logits = inputs[0];
  const auto all_reduce = [&](TensorId tensor) {
    return add(all_reduce_family(), {tensor}, collective(), layer);
  };
  copy_.replace(
      id, std::array{add_vocabulary_loss(copy_.result(), logits, inputs[1], layer, all_reduce)});
}

void Divided::keep_attention(NodeId id, std::vector<TensorId> inputs) {
  constexpr int kHeads = 1;
  constexpr int kPositions = 2;
  const Node& node = source_.nodes[id];
  const auto exchanged = [&](TensorId tensor, int split, int joined) {
    Attributes attributes = collective();
    attributes.set("split_axis", std::int64_t{split});
    attributes.set("joined_axis", std::int64_t{joined});
    return add(all_to_all_family(), {tensor}, std::move(attributes), node.layer);
  };
  const OperatorFamily* family = node.family;
  Attributes attributes = node.attributes;
  if (options_.kind == ContextKind::kRing) {
    family = &ring_attention_family();
    const Attributes group = collective();
    for (const auto& [name, value] : group.all())
      attributes.set(name, value);
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (options_.kind == ContextKind::kAllToAll) {
      inputs[i] = exchanged(inputs[i], kHeads, kPositions);
    } else if (options_.kind == ContextKind::kAllGather && i > 0) {
      const std::int64_t length = source_.tensors[node.inputs[i]].shape[kPositions];
      inputs[i] = add(all_gather_family(), {inputs[i]}, along(kPositions, length), node.layer);
    }
  }
  TensorId result = add(*family, std::move(inputs), std::move(attributes), node.layer);
  if (options_.kind == ContextKind::kAllToAll) result = exchanged(result, kPositions, kHeads);
  copy_.replace(id, std::array{result});
}

void Divided::rewrite(NodeId id) {
  const Node& node = source_.nodes[id];
  const NodePartition& part = partition_.nodes[id];
  std::vector<TensorId> inputs;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    const TensorId in = node.inputs[i];
    inputs.push_back(in.valid() ? converted(in, part.wanted[i], part.sums[i] != 0, node) : in);
  }
  Attributes attributes = node.attributes;
  switch (part.treatment) {
    case Treatment::kPlain:
      localize_attributes(source_, id, part.wanted, part.made, attributes);
      break;
    case Treatment::kColumns:
      attributes.set("input_gradient_first", std::int64_t{1});
      break;
    case Treatment::kRows:
      return keep_rows(id, std::move(inputs));
    case Treatment::kVocabularyEmbedding: {
      const TensorId own =
          add(vocabulary_embedding_family(), std::move(inputs), std::move(attributes), node.layer);
      return copy_.replace(id, std::array{summed(own, part.made[0], node.layer)});
    }
    case Treatment::kScores:
      return copy_.replace(id, std::array{inputs[0]});
    case Treatment::kVocabularyLoss:
      return keep_loss(id, inputs);
    case Treatment::kContextAttention:
      return keep_attention(id, std::move(inputs));
  }
  copy_.keep(id, std::move(inputs), std::move(attributes));
}

}  // namespace
}  // namespace partition_graph_detail

Graph partition_graph(const Graph& given, const PartitionOptions& options) {
  const bool context = options.group == MeshDimension::kContext;
  const Graph graph = context ? group_key_heads(given) : given;
  const Partition partition = plan_partition(graph, options);
  GraphCopy copy(graph);
  const PartitionSites sites = find_sites(graph);
  for (TensorId id : ids_of(graph.tensors)) {
    if (!sites.maker[id].valid() && partition.tensors[id])
      copy.reshape_root(id, local_shape(graph.tensors[id].shape, partition.tensors[id]));
  }
  partition_graph_detail::Divided divided(copy, partition, options);
  Graph result = rewrite_graph(copy, [&](GraphCopy&, NodeId id) { divided.rewrite(id); });
  if (context) return result;
  for (ParameterId id : ids_of(graph.parameters)) {
    Parameter& parameter = result.parameters[id];
    parameter.summed_over_tensor = parameter.summed_over_tensor || partition.summed[id] != 0;
  }
  return result;
}

}  // namespace tidemark
