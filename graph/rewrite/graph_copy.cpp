#include "graph/rewrite/graph_copy.hpp"

#include <utility>

#include <fmt/format.h>

#include "graph/core/errors.hpp"

namespace tidemark {

GraphCopy::GraphCopy(const Graph& source)
    : source_(source),
      next_(0U),
      tensor_(source.tensors.size()),
      node_(source.nodes.size()),
      storage_(source.storages.size()),
      is_made_(source.tensors.size(), 0),
      parameter_(source.tensors.size()) {
  result_.name = source.name;
  result_.layers = source.layers;
  result_.parameters = source.parameters;
  result_.samples = source.samples;
  result_.fixes_samples = source.fixes_samples;
  result_.tokens = source.tokens;
  result_.blocks = source.blocks;
  for (const Node& node : source.nodes) {
    for (TensorId out : node.outputs)
      is_made_[out] = 1;
  }
  for (ParameterId id : ids_of(source.parameters))
    parameter_[source.parameters[id].tensor] = id;
}

std::vector<TensorId> GraphCopy::inputs_of(NodeId id) const {
  std::vector<TensorId> inputs;
  for (TensorId in : source_.nodes[id].inputs)
    inputs.push_back(at(in));
  return inputs;
}

bool GraphCopy::is_trained(TensorId of_result) const {
  return is_trained_.contains(of_result) && is_trained_[of_result] != 0;
}

TensorId GraphCopy::add_adapter(std::string name, const Shape& shape, DType dtype, LayerId layer,
                                ParameterId behind) {
  const TensorId id = result_.add_parameter(std::move(name), shape, dtype, layer);
  behind_.resize(result_.parameters.size() - source_.parameters.size());
  behind_.back() = behind;
  result_.storages[result_.tensors[id].storage].role = Role::kAdapter;
  is_trained_.resize(result_.tensors.size(), 0);
  is_trained_[id] = 1;
  return id;
}

NodeId GraphCopy::keep(NodeId id) {
  return keep(id, inputs_of(id), source_.nodes[id].attributes);
}

NodeId GraphCopy::keep(NodeId id, std::vector<TensorId> inputs, Attributes attributes) {
  const Node& node = source_.nodes[id];
  const NodeId copy =
      result_.add_node(*node.family, std::move(inputs), std::move(attributes), node.layer);
  replace(id, std::vector<TensorId>(result_.nodes[copy].outputs));
  return copy;
}

void GraphCopy::replace(NodeId id, std::span<const TensorId> outputs) {
  const std::vector<TensorId>& old = source_.nodes[id].outputs;
  if (old.size() != outputs.size()) {
    throw InternalError(fmt::format("{} has {} outputs and becomes {}", source_.describe(id),
                                    old.size(), outputs.size()));
  }
  for (std::size_t i = 0; i < old.size(); ++i)
    tensor_[old[i]] = outputs[i];
}

void GraphCopy::reshape_root(TensorId of_source, const Shape& shape) {
  changed_[of_source] = shape;
}

void GraphCopy::freeze_root(TensorId of_source) {
  frozen_.insert(of_source);
}

void GraphCopy::drop_root(TensorId of_source) {
  changed_[of_source] = std::nullopt;
}

// Copies roots at their places among the outputs of nodes, so that a copy that changes nothing has
// the ids of its source.
void GraphCopy::copy_roots(TensorId until) {
  for (; next_ < until; next_ = TensorId(next_.value + 1)) {
    if (is_made_[next_] != 0) continue;
    const auto changed = changed_.find(next_);
    if (changed != changed_.end() && !changed->second) continue;
    Tensor root = source_.tensors[next_];
    StorageId& storage = storage_[root.storage];
    if (!storage.valid()) storage = result_.storages.push_back(source_.storages[root.storage]);
    if (changed != changed_.end()) {
      root.shape = *changed->second;
      root.strides = contiguous_strides(root.shape);
      result_.storages[storage].elements = root.elements();
      result_.storages[storage].bytes = root.bytes();
    }
    root.storage = storage;
    const auto ordered = orders_.find(next_);
    if (ordered != orders_.end()) root.strides = ordered->second;
    const auto typed = types_.find(next_);
    if (typed != types_.end()) {
      root.dtype = typed->second;
      result_.storages[storage].dtype = root.dtype;
      result_.storages[storage].bytes = root.bytes();
    }
    const bool frozen = frozen_.contains(next_);
    if (frozen) {
      root.requires_grad = false;
      result_.storages[storage].role = Role::kFrozenParameter;
    }
    const TensorId copy = result_.tensors.push_back(root);
    tensor_[next_] = copy;
    if (!parameter_[next_].valid()) continue;
    Parameter& parameter = result_.parameters[parameter_[next_]];
    parameter.tensor = copy;
    if (changed != changed_.end()) {
      parameter.shape = root.shape;
      parameter.elements = root.elements();
    }
    parameter.dtype = root.dtype;
    parameter.storage = storage;
    parameter.trained &= !frozen;
    if (!parameter.trained) continue;
    is_trained_.resize(result_.tensors.size(), 0);
    is_trained_[copy] = 1;
  }
}

void GraphCopy::begin(NodeId id) {
  copy_roots(source_.nodes[id].outputs.front());
}

void GraphCopy::end(NodeId id) {
  for (TensorId out : source_.nodes[id].outputs) {
    if (!tensor_[out].valid()) {
      throw InternalError(source_.describe(id) + " has become nothing in a rewrite");
    }
  }
  node_[id] = NodeId(result_.nodes.size() - 1);
}

// Puts the parameters into the order of registration: those that were dropped are left out, and
// adapters follow those that they were added behind. Ids change.
void GraphCopy::order_parameters() {
  const auto source_size = static_cast<std::uint32_t>(source_.parameters.size());
  IdVector<ParameterId, std::vector<ParameterId>> added(source_size);
  std::vector<ParameterId> last;
  for (std::uint32_t id = source_size; id < result_.parameters.size(); ++id) {
    const std::size_t place = id - source_size;
    const ParameterId behind = place < behind_.size() ? behind_[place] : ParameterId();
    (behind.valid() ? added[behind] : last).push_back(ParameterId(id));
  }
  IdVector<ParameterId, Parameter> ordered;
  for (const ParameterId id : ids_of(source_.parameters)) {
    if (at(source_.parameters[id].tensor).valid()) ordered.push_back(result_.parameters[id]);
    for (const ParameterId adapter : added[id])
      ordered.push_back(result_.parameters[adapter]);
  }
  for (const ParameterId id : last)
    ordered.push_back(result_.parameters[id]);
  result_.parameters = std::move(ordered);
}

Graph GraphCopy::finish() {
  copy_roots(source_.tensors.end_id());
  for (const LocalVariable& local : source_.locals) {
    result_.locals.push_back({at(local.tensor), local.until.valid() ? node_[local.until] : NodeId(),
                              local.only_in_evaluation, local.shared_as, local.returned,
                              local.leaf});
  }
  order_parameters();
  result_.logits = at(source_.logits);
  result_.loss = at(source_.loss);
  for (TensorId output : source_.other_outputs)
    result_.other_outputs.push_back(at(output));
  return std::move(result_);
}

Graph rewrite_graph(const Graph& source, const std::function<void(GraphCopy&, NodeId)>& rewrite) {
  GraphCopy copy(source);
  return rewrite_graph(copy, rewrite);
}

Graph rewrite_graph(GraphCopy& copy, const std::function<void(GraphCopy&, NodeId)>& rewrite) {
  for (NodeId id : ids_of(copy.source().nodes)) {
    copy.begin(id);
    rewrite(copy, id);
    copy.end(id);
  }
  return copy.finish();
}

}  // namespace tidemark
