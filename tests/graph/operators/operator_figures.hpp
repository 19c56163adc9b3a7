// The bytes that a probe's graph keeps and allocates, as the probes counted them: relative to the
// arguments and to the incoming gradient, both of which the probe's caller holds.
#pragma once

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>

#include "graph/autodiff/differentiate.hpp"
#include "graph/operators/family.hpp"
#include "tests/graph/operators/operator_probes.hpp"
#include "tests/graph/operators/probe.hpp"

namespace tidemark::probe {

struct OperatorFigures {
  std::int64_t saved = 0;
  bool saves_output = false;
  std::set<std::string> saves_inputs;
  // Bytes above those at the start of forward, and of backward.
  std::int64_t forward_peak = 0;
  std::int64_t forward_end = 0;
  std::int64_t backward_peak = 0;
  std::int64_t backward_end = 0;
};

struct ProbeGraph {
  Graph graph;
  std::vector<std::pair<std::string, TensorId>> names;
};

inline ProbeGraph graph_of(const OperatorProbe& probe) {
  Arguments arguments(probe.dtype);
  arguments.builder.set_output(probe.build(arguments));
  ProbeGraph built{.graph = arguments.builder.finish(), .names = arguments.names};
  for (const Parameter& p :
       built.graph.parameters) {  // parameters of modules, by their names inside
    const std::size_t dot = p.name.find('.');
    if (dot != std::string::npos) built.names.emplace_back(p.name.substr(dot + 1), p.tensor);
  }
  for (TensorId id : arguments.retyped) {
    Tensor& tensor = built.graph.tensors[id];
    tensor.requires_grad = true;
    Storage& storage = built.graph.storages[tensor.storage];
    storage.role = Role::kParameter;
    built.graph.parameters.push_back({.name = storage.name,
                                      .shape = tensor.shape,
                                      .dtype = tensor.dtype,
                                      .elements = tensor.elements(),
                                      .tensor = id,
                                      .storage = tensor.storage});
  }
  return built;
}

class OperatorMeter {
 public:
  OperatorMeter(const OperatorProbe& probe, const FrameworkRules& rules)
      : probe_(probe),
        built_(graph_of(probe)),
        rules_(rules),
        training_(differentiate(built_.graph, rules, {})),
        output_(built_.graph.tensors[built_.graph.logits].storage) {}

  OperatorFigures measure() {
    read_saved_sets();
    find_ends();
    run_forward();
    run_backward();
    return figures_;
  }

 private:
  // For each node that autograd records: arguments, the result, and anything else that forward
  // made.
  void read_saved_sets() {
    std::set<StorageId> kept;
    for (NodeId id : ids_of(built_.graph.nodes)) {
      const Node& node = built_.graph.nodes[id];
      const bool recorded =
          std::any_of(node.outputs.begin(), node.outputs.end(),
                      [&](TensorId out) { return built_.graph.tensors[out].requires_grad; });
      if (!recorded) continue;
      const NodeView view(built_.graph, id, rules_);
      SavedSet set(view);
      node.family->save(set);
      for (std::size_t i : set.inputs())
        kept.insert(view.input(i).storage);
      for (std::size_t i : set.outputs())
        kept.insert(view.output(i).storage);
    }
    for (const auto& [name, id] : built_.names) {
      if (kept.count(built_.graph.tensors[id].storage) > 0) figures_.saves_inputs.insert(name);
    }
    figures_.saves_output = kept.count(output_) > 0 && !training_.storages[output_].initial;
    for (StorageId id : ids_of(training_.storages)) {
      const Storage& storage = training_.storages[id];
      const bool extra =
          id.index() >= built_.graph.storages.size() && storage.role == Role::kSavedActivation;
      const bool intermediate = kept.count(id) > 0 && id != output_ && !storage.initial;
      if (extra || intermediate) figures_.saved += storage.bytes.count;
    }
  }

  void find_ends() {
    last_.assign(training_.storages.size(), 0);
    std::vector<OperatorId> order = training_.part(PartKind::kForward);
    order.insert(order.end(), training_.part(PartKind::kBackward).begin(),
                 training_.part(PartKind::kBackward).end());
    IdVector<OperatorId, std::size_t> position(training_.operators.size(), 0);
    for (std::size_t i = 0; i < order.size(); ++i) {
      position[order[i]] = i;
      for (const Touch& touch : training_.touches_of(order[i]))
        last_[touch.storage] = i;
    }
    for (const Hold& hold : training_.holds)
      last_[hold.storage] = std::max(last_[hold.storage], position[hold.until]);
    for (ParameterId id : training_.trained)
      last_[training_.parameters[id].gradient] = order.size();
    last_[output_] = order.size();
  }

  void run(const std::vector<OperatorId>& part, std::size_t first, std::int64_t& peak) {
    for (std::size_t i = 0; i < part.size(); ++i) {
      const Operator& op = training_.operators[part[i]];
      if (op.part == OperatorPart::kRootGradient) {
        root_ = training_.touches_of(part[i]).front().storage;
        // loss.backward() makes the gradient of a scalar itself.
        if (built_.graph.tensors[built_.graph.logits].shape.rank() > 0) continue;
      }
      for (const Touch& touch : training_.touches_of(part[i])) {
        if (touch.access != Access::kCreate) continue;
        live_ += training_.storages[touch.storage].bytes.count;
        blocks_.push_back(touch.storage);
      }
      peak = std::max(peak, live_ + op.workspace.count);
      std::erase_if(blocks_, [&](StorageId id) {
        if (last_[id] > first + i) return false;
        live_ -= training_.storages[id].bytes.count;
        return true;
      });
    }
  }

  void run_forward() {
    run(training_.part(PartKind::kForward), 0, figures_.forward_peak);
    figures_.forward_end = live_;
  }

  // The caller's incoming gradient cannot become the gradient of an argument: it is copied.
  void run_backward() {
    const std::int64_t start = live_;
    std::int64_t peak = live_;
    run(training_.part(PartKind::kBackward), training_.part(PartKind::kForward).size(), peak);
    for (ParameterId id : training_.trained) {
      if (training_.parameters[id].gradient == root_ && !probe_.is_view)
        live_ += training_.storages[root_].bytes.count;
    }
    figures_.backward_peak = std::max(peak, live_) - start;
    figures_.backward_end = live_ - start;
  }

  const OperatorProbe& probe_;
  ProbeGraph built_;
  const FrameworkRules& rules_;
  TrainingGraph training_;
  StorageId output_;
  StorageId root_;
  IdVector<StorageId, std::size_t> last_;
  std::vector<StorageId> blocks_;
  std::int64_t live_ = 0;
  OperatorFigures figures_;
};

inline OperatorFigures measure(const OperatorProbe& probe) {
  return OperatorMeter(probe, *find_framework("torch-1.13-cpu")).measure();
}

}  // namespace tidemark::probe
