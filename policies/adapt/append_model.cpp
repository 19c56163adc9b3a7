#include "policies/adapt/append_model.hpp"

#include <string>

#include <fmt/format.h>

#include "graph/core/errors.hpp"

namespace tidemark {
namespace append_model_detail {
namespace {

class Appender {
 public:
  Appender(Graph& into, const Graph& model, std::string_view prefix, std::string_view policy)
      : into_(into), model_(model), policy_(policy), storage_(model.storages.size()) {
    for (const Layer& layer : model.layers)
      layers_.push_back(into.add_layer(fmt::format("{}.{}", prefix, layer.name)));
    result_.tensor.assign(model.tensors.size(), TensorId());
    is_parameter_.assign(model.tensors.size(), 0);
    for (const Parameter& parameter : model.parameters)
      is_parameter_[parameter.tensor] = 1;
  }

  AppendedModel run() {
    for (NodeId id : ids_of(model_.nodes))
      append(model_.nodes[id]);
    const NodeId first(into_.nodes.size() - model_.nodes.size());
    for (const LocalVariable& local : model_.locals) {
      if (!result_.tensor[local.tensor].valid() || !local.until.valid()) continue;
      const NodeId until(first.index() + local.until.index());
      into_.locals.push_back({result_.tensor[local.tensor], until});
    }
    return std::move(result_);
  }

 private:
  void append(const Node& node) {
    Node copy = node;
    copy.layer = node.layer.valid() ? layers_[node.layer] : LayerId();
    for (TensorId& input : copy.inputs) {
      if (input.valid()) input = copied(input);
    }
    for (TensorId& output : copy.outputs)
      output = copied(output);
    into_.nodes.push_back(std::move(copy));
  }

  TensorId copied(TensorId id) {
    TensorId& copy = result_.tensor[id];
    if (copy.valid()) return copy;
    const Tensor& tensor = model_.tensors[id];
    const Storage& storage = model_.storages[tensor.storage];
    if (storage.role == Role::kInput) return copy = shared_input(tensor, storage);
    Tensor made = tensor;
    made.requires_grad = false;
    made.storage = copied_storage(tensor.storage, is_parameter_[id] != 0);
    return copy = into_.tensors.push_back(made);
  }

  StorageId copied_storage(StorageId id, bool of_parameter) {
    StorageId& copy = storage_[id];
    if (copy.valid()) return copy;
    Storage storage = model_.storages[id];
    if (of_parameter) storage.role = Role::kTeacher;
    storage.layer = storage.layer.valid() ? layers_[storage.layer] : LayerId();
    return copy = into_.storages.push_back(std::move(storage));
  }

  // A view of an input is made by a node; the input itself is the trained model's.
  TensorId shared_input(const Tensor& wanted, const Storage& storage) {
    if (storage_[wanted.storage].valid()) {
      Tensor view = wanted;
      view.storage = storage_[wanted.storage];
      return into_.tensors.push_back(view);
    }
    for (TensorId id : ids_of(into_.tensors)) {
      const Tensor& tensor = into_.tensors[id];
      if (into_.storages[tensor.storage].role != Role::kInput || tensor.dtype != wanted.dtype ||
          !(tensor.shape == wanted.shape) || !(tensor.strides == wanted.strides)) {
        continue;
      }
      storage_[wanted.storage] = tensor.storage;
      return id;
    }
    throw UserError({}, fmt::format("policies.{}.teacher", policy_),
                    fmt::format("the teacher '{}' takes '{}' of shape {}, and '{}' has no input of "
                                "this shape and type",
                                model_.name, storage.name, to_string(wanted.shape), into_.name));
  }

  Graph& into_;
  const Graph& model_;
  std::string_view policy_;
  IdVector<StorageId, StorageId> storage_;
  IdVector<LayerId, LayerId> layers_;
  IdVector<TensorId, char> is_parameter_;
  AppendedModel result_;
};

}  // namespace
}  // namespace append_model_detail

AppendedModel append_model(Graph& into, const Graph& model, std::string_view prefix,
                           std::string_view policy) {
  return append_model_detail::Appender(into, model, prefix, policy).run();
}

}  // namespace tidemark
