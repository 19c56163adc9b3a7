#include "graph/analysis/module_names.hpp"

#include "graph/operators/known_families.hpp"
#include "graph/operators/registry.hpp"

namespace tidemark {
namespace module_names_detail {
namespace {

bool is_loss(const OperatorFamily& family) {
  return is_one_of(loss_families(), family) || is_one_of(regression_loss_families(), family);
}

// Returns the first node of the loss: the first of a loss family behind the last module, with the
// casts and log_softmax right before it.
NodeId first_of_loss(const TrainingGraph& graph) {
  NodeId last_module;
  for (const Operator& op : graph.operators) {
    if (op.part != OperatorPart::kForward || !op.node.valid() || !op.layer.valid()) continue;
    if (!last_module.valid() || last_module < op.node) last_module = op.node;
  }
  NodeId first;
  NodeId before;  // the first of those that stand right before
  for (const Operator& op : graph.operators) {
    const bool behind = op.node.valid() && (!last_module.valid() || last_module < op.node);
    if (op.part != OperatorPart::kForward || !behind || first.valid()) continue;
    const bool prepares = op.family == &cast_family() || op.family == &log_softmax_family();
    if (op.family != nullptr && is_loss(*op.family)) {
      first = before.valid() ? before : op.node;
    } else if (!prepares) {
      before = NodeId();
    } else if (!before.valid()) {
      before = op.node;
    }
  }
  return first;
}

}  // namespace
}  // namespace module_names_detail

ModuleNames::ModuleNames(const TrainingGraph& graph)
    : graph_(graph),
      first_of_loss_(module_names_detail::first_of_loss(graph)),
      created_by_(graph.storages.size()) {
  for (const OperatorId op : ids_of(graph.operators)) {
    for (const Touch& touch : graph.touches_of(op)) {
      if (touch.access == Access::kCreate && !created_by_[touch.storage].valid())
        created_by_[touch.storage] = op;
    }
  }
}

std::string_view ModuleNames::of(OperatorId id) const {
  const Operator& op = graph_.operators[id];
  const std::string_view layer = graph_.layer_name(op.layer);
  if (!layer.empty()) return layer;
  if (op.phase == Phase::kOptimizer || op.part == OperatorPart::kZeroGrad) return "optimizer";
  if (op.part == OperatorPart::kRootGradient || op.part == OperatorPart::kDivideLoss) return "loss";
  const bool of_loss = first_of_loss_.valid() && op.node.valid() && !(op.node < first_of_loss_);
  if (of_loss) return "loss";
  return op.family != nullptr ? op.family->name : std::string_view(op.name);
}

std::string_view ModuleNames::of(StorageId id) const {
  const Storage& storage = graph_.storages[id];
  const std::string_view layer = graph_.layer_name(storage.layer);
  if (!layer.empty()) return layer;
  if (storage.role == Role::kInput) return "inputs";
  return created_by_[id].valid() ? of(created_by_[id]) : std::string_view();
}

}  // namespace tidemark
