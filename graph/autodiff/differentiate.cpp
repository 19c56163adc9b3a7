#include "graph/autodiff/differentiate.hpp"

#include <algorithm>
#include <string>

#include "graph/autodiff/gradient_tape.hpp"
#include "graph/operators/family.hpp"
#include "graph/operators/forward_builder.hpp"

namespace tidemark {

bool GradientTape::is_differentiable(const Node& node) const {
  for (TensorId out : node.outputs) {
    if (graph_.tensors[out].requires_grad) return true;
  }
  return false;
}

// Keeps what the backward of a node reads; `kernel`, its forward, creates the extra tensors.
void GradientTape::save_operands(NodeId id, const NodeView& view, BackwardKernel& kernel) {
  SavedSet set(view);
  graph_.nodes[id].family->save(set);
  SavedBy& kept = saved_[id];
  for (std::size_t i : set.inputs()) {
    const StorageId storage = view.input(i).storage;
    const NodeId maker = recomputed_by_[storage];
    if (maker.valid()) kept.recomputed.push_back(maker);
    kept.storages.push_back(
        maker.valid() ? graph_.tensors[graph_.nodes[maker].inputs.front()].storage : storage);
  }
  for (std::size_t i : set.contexts()) {
    const StorageId storage = view.input(i).storage;
    if (std::find(contexts_.begin(), contexts_.end(), storage) == contexts_.end())
      contexts_.push_back(storage);
  }
  for (std::size_t i : set.outputs())
    kept.storages.push_back(view.output(i).storage);
  for (const SavedSet::Extra& extra : set.extras()) {
    const Tensor tensor = create(extra.name, extra.shape, extra.dtype);
    kept.storages.push_back(tensor.storage);
    kept.extras.emplace_back(extra.name, tensor);
    kernel.creates.push_back(tensor);
  }
  for (StorageId s : kept.storages) {
    Storage& storage = training_.storages[s];
    if (storage.role == Role::kTemporary) storage.role = Role::kSavedActivation;
  }
}

// Emits the forward kernel of a node; a node that only makes views has none.
void GradientTape::emit_forward(NodeId id) {
  const Node& node = graph_.nodes[id];
  const NodeView view(graph_, id, rules_);
  current_ = id;
  BackwardKernel kernel{.name = node.family->name, .part = OperatorPart::kForward};
  for (TensorId in : node.inputs) {
    if (in.valid()) kernel.reads.push_back(graph_.tensors[in]);
  }
  for (TensorId out : node.outputs) {
    const Tensor& tensor = graph_.tensors[out];
    bool shared = false;
    for (const Tensor& in : kernel.reads)
      shared = shared || in.storage == tensor.storage;
    if (!shared) kernel.creates.push_back(tensor);
    if (shared && view.is_in_place()) kernel.mutates.push_back(tensor);
  }
  if (is_differentiable(node)) save_operands(id, view, kernel);
  if (node.family->recomputed_in_backward) {
    recomputed_by_[view.output().storage] = id;
    training_.storages[view.output().storage].role = Role::kCommunication;
  }
  if (node.family->emit != nullptr) {
    ForwardBuilder builder(*this, view);
    node.family->emit(builder);
  } else if (!kernel.creates.empty() || !kernel.mutates.empty()) {
    const ForwardKernel forward = node.family->forward(view);
    kernel.work = forward.work;
    kernel.workspace = forward.workspace;
    kernel.blocks_host = forward.blocks_host;
    if (forward.temporary > Bytes(0)) {
      kernel.temporary = forward.temporary;
    }
    launch(kernel);
  }
  forward_operator_[id] = training_.part(PartKind::kForward).empty()
                              ? OperatorId()
                              : training_.part(PartKind::kForward).back();
  current_ = {};
}

// backward() starts from a gradient of ones in the loss's shape.
void GradientTape::emit_root_gradient() {
  const TensorId root = graph_.loss.valid() ? graph_.loss : graph_.logits;
  if (!root.valid() || !graph_.tensors[root].requires_grad) return;
  const Tensor& like = graph_.tensors[root];
  const Tensor ones = create("root_gradient", like.shape, like.dtype);
  Work work{.op_class = OperatorClass::kMemset, .dtype = like.dtype};
  work.written = ones.bytes();
  launch({.name = "root_gradient",
          .part = OperatorPart::kRootGradient,
          .creates = {ones},
          .work = work});
  pending_[root] = ones;
  references_[ones.storage] = 1;
}

void GradientTape::emit_backward(NodeId id) {
  const Node& node = graph_.nodes[id];
  bool reached = false;
  for (TensorId out : node.outputs)
    reached = reached || pending_[out].has_value();
  if (!reached || !is_differentiable(node)) return;
  reached_[id] = 1;

  current_ = id;
  results_.clear();
  handed_on_ = 0;
  incoming_until_ = {};
  saved_until_ = {};
  const std::size_t before = part_->size();
  const NodeView view(graph_, id, rules_);
  recompute_for(id);
  BackwardBuilder builder(*this, view);
  node.family->backward(builder);
  for (const auto& [target, gradient] : results_)
    ++references_[gradient.storage];
  hold_node(id, part_->size() > before ? part_->back() : OperatorId());
  release_output_gradients(id);

  const Results results = std::move(results_);
  results_.clear();
  const std::span<const std::pair<TensorId, Tensor>> all(results);
  deliver_all(all.first(handed_on_));
  deliver_all(all.subspan(handed_on_));
  current_ = {};
}

// torch's engine releases the gradients that a node returned after it has added the last of them.
void GradientTape::hold_summands(std::span<const StorageId> summands, OperatorId last_sum) {
  if (!rules_.holds || summands.size() < 2) return;
  for (StorageId summand : summands)
    training_.holds.push_back({summand, OperatorId(), last_sum, HoldKind::kSaved});
}

// All gradients reach their nodes before AccumulateGrad runs for the leaves among these.
void GradientTape::deliver_all(std::span<const std::pair<TensorId, Tensor>> results) {
  std::vector<StorageId> summands;
  OperatorId last_sum;
  for (const auto& [target, gradient] : results) {
    const bool adds = pending_[target].has_value();
    deliver(target, gradient);
    if (!adds) continue;
    summands.push_back(gradient.storage);
    last_sum = part_->back();
  }
  hold_summands(summands, last_sum);
  for (const auto& [target, gradient] : results) {
    const ParameterId parameter = parameter_[target];
    if (!parameter.valid() || uses_left_[target] > 0 || !pending_[target]) continue;
    if (!part_->empty()) training_.parameters[parameter].ready_after = part_->back();
    accumulate_leaf(parameter);
  }
}

// The caller of the engine holds the gradients that it starts from until backward returns.
void GradientTape::hold_root_gradients() {
  const std::vector<OperatorId>& backward = training_.part(PartKind::kBackward);
  const std::size_t received = static_cast<std::size_t>(
      std::count_if(transfers_.received_gradients.begin(), transfers_.received_gradients.end(),
                    [](StorageId gradient) { return gradient.valid(); }));
  const std::size_t roots = std::min(std::max<std::size_t>(received, 1), backward.size());
  for (std::size_t i = 0; i < roots; ++i) {
    const StorageId gradient = training_.touches_of(backward[i]).front().storage;
    training_.holds.push_back({gradient, backward[i], backward.back(), HoldKind::kLocal});
  }
}

// Operators without a kernel that mark where variables die: zero_grad and the end of the step.
void GradientTape::emit_ends() {
  const auto marker = [&](std::vector<OperatorId>& part, OperatorPart kind, std::string name,
                          Phase phase) {
    Operator op{.name = std::move(name), .part = kind, .phase = phase};
    part.push_back(training_.add_operator(std::move(op), {}));
    return part.back();
  };
  const OperatorId end =
      marker(training_.part(PartKind::kEndOfStep), OperatorPart::kEndOfStep, "end_of_step",
             options_.evaluates ? Phase::kForward : Phase::kOptimizer);
  // The training loop reads the loss, so the host does not run into the next step.
  training_.operators[end].blocks_host = true;
  if (!options_.evaluates) {
    const OperatorId zero_grad = marker(training_.part(PartKind::kZeroGrad),
                                        OperatorPart::kZeroGrad, "zero_grad", Phase::kForward);
    for (ParameterId p : training_.trained) {
      training_.holds.push_back(
          {training_.parameters[p].gradient, OperatorId(), zero_grad, HoldKind::kLocal});
    }
  }
  if (graph_.loss.valid()) training_.loss = graph_.tensors[graph_.loss].storage;
  for (const LocalVariable& local : graph_.locals) {
    if (!local.shared_as.empty())
      training_.named.emplace_back(local.shared_as, graph_.tensors[local.tensor].storage);
  }
  if (rules_.holds) hold_variables(end);
}

// The engine waits for the nodes that lead to the gradients that backward starts from: those whose
// outputs nothing differentiable reads, such as a view of a weight for its shape, hand on nothing.
void GradientTape::count_uses() {
  IdVector<TensorId, char> wanted(graph_.tensors.size(), 0);
  for (TensorId id : ids_of(pending_))
    wanted[id] = pending_[id] ? 1 : 0;
  for (std::size_t i = graph_.nodes.size(); i-- > 0;) {
    const Node& node = graph_.nodes[NodeId(i)];
    if (!is_differentiable(node)) continue;
    if (std::none_of(node.outputs.begin(), node.outputs.end(),
                     [&](TensorId out) { return wanted[out] != 0; })) {
      continue;
    }
    for (TensorId in : node.inputs) {
      if (!in.valid() || !graph_.tensors[in].requires_grad) continue;
      wanted[in] = 1;
      ++uses_left_[in];
    }
  }
}

TrainingGraph GradientTape::run() {
  parameter_.assign(graph_.tensors.size(), ParameterId());
  reached_.assign(graph_.nodes.size(), 0);
  recomputed_by_.assign(graph_.storages.size(), NodeId());
  recomputed_.assign(graph_.storages.size(), StorageId());
  for (ParameterId p : ids_of(graph_.parameters))
    parameter_[graph_.parameters[p].tensor] = p;
  part_ = &training_.part(PartKind::kForward);
  phase_ = Phase::kForward;
  receive_activations();
  for (NodeId id : ids_of(graph_.nodes))
    emit_forward(id);
  send_activations();
  part_ = &training_.part(PartKind::kBackward);
  phase_ = Phase::kBackward;
  emit_root_gradient();
  receive_gradients();
  count_uses();
  for (std::size_t i = graph_.nodes.size(); i-- > 0;)
    emit_backward(NodeId(i));
  send_gradients();
  for (ParameterId p : ids_of(graph_.parameters)) {
    if (pending_[graph_.parameters[p].tensor])
      accumulate_leaf(p);  // some of its uses hand on no gradient
  }
  keep_outputs();
  emit_ends();
  std::vector<ParameterId> in_order = training_.trained;
  std::sort(in_order.begin(), in_order.end());
  for (ParameterId p : in_order)
    training_.updates.push_back(whole_update(training_, p));
  check_invariants(training_);
  return std::move(training_);
}

TrainingGraph differentiate(const Graph& graph, const FrameworkRules& rules,
                            const DifferentiateOptions& options) {
  return GradientTape(graph, rules, options).run();
}

TrainingGraph differentiate(const Graph& graph, const FrameworkRules& rules,
                            const DifferentiateOptions& options, StageTransfers& transfers) {
  GradientTape tape(graph, rules, options);
  TrainingGraph training = tape.run();
  transfers = tape.transfers();
  return training;
}

}  // namespace tidemark
