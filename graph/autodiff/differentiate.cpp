#include "graph/autodiff/differentiate.hpp"

#include <algorithm>
#include <string>

#include <fmt/format.h>

#include "graph/autodiff/gradient_tape.hpp"
#include "graph/core/errors.hpp"

namespace tidemark {

GradientTape::GradientTape(const Graph& graph, const FrameworkRules& rules,
                           const DifferentiateOptions& options)
    : graph_(graph),
      rules_(rules),
      options_(options),
      saved_(graph.nodes.size()),
      forward_operator_(graph.nodes.size()),
      pending_(graph.tensors.size()),
      uses_left_(graph.tensors.size(), 0),
      references_(graph.storages.size(), 0) {
  training_.name = graph.name;
  training_.storages = graph.storages;
  training_.layers = graph.layers;
  training_.blocks = graph.blocks;
  training_.has_frames = rules.holds;
  training_.checkpoint_random_state = rules.checkpoint_random_state;
  training_.samples = graph.samples;
  training_.tokens = graph.tokens;
  training_.parameters = graph.parameter_count();
  training_.trainable_parameters = graph.trainable_parameter_count();
  training_.tensors = graph.tensors.size();
  training_.operators.reserve(graph.nodes.size() * 4);
  training_.touches.reserve(graph.nodes.size() * 12);
}

bool GradientTape::is_differentiable(const Node& node) const {
  for (TensorId out : node.outputs) {
    if (graph_.tensors[out].requires_grad) return true;
  }
  return false;
}

Tensor GradientTape::saved(NodeId node, std::string_view name) const {
  for (const auto& [known, tensor] : saved_[node].extras) {
    if (known == name) return tensor;
  }
  throw InternalError(fmt::format("{} has not saved '{}'", graph_.describe(node), name));
}

Tensor GradientTape::create(std::string_view name, const Shape& shape, DType dtype) {
  Tensor tensor{
      .storage = {}, .dtype = dtype, .shape = shape, .strides = contiguous_strides(shape)};
  tensor.storage = training_.storages.push_back(
      {.bytes = tensor.bytes(),
       .role = phase_ == Phase::kForward ? Role::kSavedActivation : Role::kActivationGradient,
       .layer = current_.valid() ? graph_.nodes[current_].layer : LayerId(),
       .initial = false,
       .persistent = false,
       .name = std::string(name)});
  references_.push_back(0);
  return tensor;
}

OperatorId GradientTape::launch(const BackwardBuilder::Kernel& kernel) {
  std::vector<Touch> touches;
  touches.reserve(kernel.reads.size() + kernel.creates.size() + kernel.mutates.size());
  for (const Tensor& t : kernel.reads)
    touches.push_back({t.storage, Access::kRead});
  for (const Tensor& t : kernel.mutates)
    touches.push_back({t.storage, Access::kMutate});
  for (const Tensor& t : kernel.creates)
    touches.push_back({t.storage, Access::kCreate});
  const OperatorId id =
      training_.add_operator({.name = std::string(kernel.name),
                              .phase = phase_,
                              .executor = Executor::kDevice,
                              .node = current_,
                              .layer = current_.valid() ? graph_.nodes[current_].layer : LayerId(),
                              .first_touch = 0,
                              .touch_count = 0,
                              .workspace = kernel.workspace,
                              .work = kernel.work},
                             touches);
  part_->push_back(id);
  return id;
}

// The forward kernel of a node; a node that only makes views has none.
void GradientTape::emit_forward(NodeId id) {
  const Node& node = graph_.nodes[id];
  const NodeView view(graph_, id, rules_);
  current_ = id;
  BackwardBuilder::Kernel kernel{.name = node.family->name};
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
  if (is_differentiable(node)) {
    SavedSet set(view);
    node.family->save(set);
    SavedBy& kept = saved_[id];
    for (std::size_t i : set.inputs())
      kept.storages.push_back(view.input(i).storage);
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
  if (!kernel.creates.empty() || !kernel.mutates.empty()) {
    const ForwardKernel forward = node.family->forward(view);
    kernel.work = forward.work;
    kernel.workspace = forward.workspace;
    launch(kernel);
  }
  forward_operator_[id] = training_.forward.empty() ? OperatorId() : training_.forward.back();
  current_ = {};
}

// backward() starts from a gradient of ones in the loss's shape.
void GradientTape::emit_root_gradient() {
  const TensorId root = graph_.loss.valid() ? graph_.loss : graph_.logits;
  if (!graph_.tensors[root].requires_grad) return;
  const Tensor& like = graph_.tensors[root];
  const Tensor ones = create("root_gradient", like.shape, like.dtype);
  Work work{.op_class = OperatorClass::kMemset, .dtype = like.dtype};
  work.written = ones.bytes();
  launch({.name = "root_gradient", .reads = {}, .creates = {ones}, .mutates = {}, .work = work});
  pending_[root] = ones;
  references_[ones.storage] = 1;
}

void GradientTape::release_output_gradients(NodeId id) {
  for (TensorId out : graph_.nodes[id].outputs) {
    if (!pending_[out]) continue;
    --references_[pending_[out]->storage];
    pending_[out].reset();
  }
}

// Incoming gradients and saved tensors live until the backward node has returned.
void GradientTape::hold_node(NodeId id, OperatorId last) {
  if (!rules_.holds || !last.valid()) return;
  for (StorageId s : saved_[id].storages) {
    if (!training_.storages[s].persistent) {
      training_.holds.push_back({s, OperatorId(), last, HoldKind::kSaved});
    }
  }
  for (TensorId out : graph_.nodes[id].outputs) {
    if (pending_[out]) {
      training_.holds.push_back({pending_[out]->storage, OperatorId(), last, HoldKind::kSaved});
    }
  }
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
  const std::size_t before = part_->size();
  const NodeView view(graph_, id, rules_);
  BackwardBuilder builder(*this, view);
  node.family->backward(builder);
  for (const auto& [target, gradient] : results_)
    ++references_[gradient.storage];
  hold_node(id, part_->size() > before ? part_->back() : OperatorId());
  release_output_gradients(id);

  const std::vector<std::pair<TensorId, Tensor>> results = std::move(results_);
  results_.clear();
  for (const auto& [target, gradient] : results)
    deliver(target, gradient);
  for (const auto& [target, gradient] : results) {
    if (is_parameter_[target] != 0 && uses_left_[target] == 0 && pending_[target]) {
      accumulate_leaf(target);
    }
  }
  current_ = {};
}

void GradientTape::deliver(TensorId target, const Tensor& gradient) {
  if (uses_left_[target] > 0) --uses_left_[target];
  pending_[target] = pending_[target] ? add_gradients(*pending_[target], gradient) : gradient;
}

// torch's InputBuffer::add: in place only when nobody else holds the first gradient.
Tensor GradientTape::add_gradients(const Tensor& old, const Tensor& added) {
  Work work{.op_class = OperatorClass::kElementwise, .dtype = old.dtype};
  work.flops = Flops(static_cast<double>(old.elements()));
  work.read = old.bytes() + added.bytes();
  work.written = old.bytes();
  const bool in_place = rules_.adds_gradients_in_place && references_[old.storage] == 1 &&
                        old.is_contiguous() && old.storage != added.storage;
  if (in_place) {
    launch(
        {.name = "add_gradients", .reads = {added}, .creates = {}, .mutates = {old}, .work = work});
    --references_[added.storage];
    return old;
  }
  const Tensor sum = create("gradient_sum", old.shape, old.dtype);
  launch({.name = "add_gradients",
          .reads = {old, added},
          .creates = {sum},
          .mutates = {},
          .work = work});
  --references_[old.storage];
  --references_[added.storage];
  references_[sum.storage] = 1;
  return sum;
}

// Whether another input waits for the same gradient. Views of one storage, as cat's backward makes
// them, are tensors of their own.
bool GradientTape::is_shared(TensorId parameter) const {
  const Tensor& gradient = *pending_[parameter];
  if (references_[gradient.storage] == 1) return false;
  for (TensorId other : ids_of(pending_)) {
    if (other != parameter && pending_[other] && pending_[other]->storage == gradient.storage &&
        pending_[other]->shape == gradient.shape) {
      return true;
    }
  }
  return false;
}

// AccumulateGrad with .grad None: the incoming tensor becomes .grad when nobody else holds it and
// it lies in memory as the parameter does; a view keeps its whole storage.
void GradientTape::accumulate_leaf(TensorId parameter) {
  const Tensor gradient = *pending_[parameter];
  const Tensor& leaf = graph_.tensors[parameter];
  const DType wanted = options_.gradient_dtype.value_or(leaf.dtype);
  const bool stolen = !is_shared(parameter) && gradient.dtype == wanted &&
                      gradient.is_contiguous() &&
                      training_.storages[gradient.storage].role == Role::kActivationGradient;
  Tensor kept = gradient;
  if (!stolen) {
    kept = create("gradient", leaf.shape, wanted);
    Work work{.op_class = OperatorClass::kElementwise, .dtype = wanted};
    work.read = gradient.bytes();
    work.written = kept.bytes();
    launch({.name = "copy_gradient",
            .reads = {gradient},
            .creates = {kept},
            .mutates = {},
            .work = work});
  }
  --references_[gradient.storage];
  pending_[parameter].reset();
  const std::string& name = training_.storages[leaf.storage].name;
  Storage& storage = training_.storages[kept.storage];
  storage.role = Role::kGradient;
  storage.persistent = true;
  storage.layer = training_.storages[leaf.storage].layer;
  storage.name = name + ".grad";
  training_.trained.push_back({.parameter = leaf.storage,
                               .gradient = kept.storage,
                               .elements = leaf.elements(),
                               .shape = leaf.shape,
                               .dtype = leaf.dtype,
                               .gradient_dtype = wanted,
                               .name = name,
                               .layer = storage.layer});
}

// Outputs that the loss does not read keep their autograd graph: what its nodes saved goes with
// them at the end of the step, since backward never comes there.
void GradientTape::hold_other_outputs(OperatorId end) {
  if (graph_.other_outputs.empty()) return;
  IdVector<TensorId, char> wanted(graph_.tensors.size(), 0);
  for (TensorId output : graph_.other_outputs)
    wanted[output] = 1;
  for (std::size_t i = graph_.nodes.size(); i-- > 0;) {
    const NodeId id(i);
    const Node& node = graph_.nodes[id];
    const bool leads_there = std::any_of(node.outputs.begin(), node.outputs.end(),
                                         [&](TensorId out) { return wanted[out] != 0; });
    if (!leads_there) continue;
    for (TensorId in : node.inputs) {
      if (in.valid()) wanted[in] = 1;
    }
    if (reached_[id] != 0) continue;
    for (StorageId s : saved_[id].storages) {
      if (!training_.storages[s].persistent) {
        training_.holds.push_back({s, OperatorId(), end, HoldKind::kSaved});
      }
    }
  }
}

// Operators without a kernel that mark where variables die: zero_grad and the end of the step.
void GradientTape::emit_ends() {
  const auto marker = [&](std::vector<OperatorId>& part, std::string name, Phase phase) {
    Operator op;
    op.name = std::move(name);
    op.phase = phase;
    part.push_back(training_.add_operator(std::move(op), {}));
    return part.back();
  };
  const OperatorId zero_grad = marker(training_.zero_grad, "zero_grad", Phase::kForward);
  const OperatorId end = marker(training_.end_of_step, "end_of_step", Phase::kOptimizer);
  // The training loop reads the loss, so the host does not run into the next step.
  training_.operators[end].blocks_host = true;
  for (const TrainedParameter& p : training_.trained) {
    training_.holds.push_back({p.gradient, OperatorId(), zero_grad, HoldKind::kLocal});
  }
  if (graph_.loss.valid()) training_.loss = graph_.tensors[graph_.loss].storage;
  if (!rules_.holds) return;
  const auto keep = [&](TensorId tensor, OperatorId until) {
    const StorageId storage = graph_.tensors[tensor].storage;
    for (OperatorId since : training_.forward) {
      for (const Touch& touch : training_.touches_of(since)) {
        if (touch.storage == storage && touch.access == Access::kCreate) {
          training_.holds.push_back({storage, since, until, HoldKind::kLocal});
          return;
        }
      }
    }
  };
  if (!training_.backward.empty()) {
    // The caller of the engine holds the gradient that it starts from until backward returns.
    const OperatorId root = training_.backward.front();
    const StorageId ones = training_.touches_of(root).front().storage;
    training_.holds.push_back({ones, root, training_.backward.back(), HoldKind::kLocal});
  }
  hold_other_outputs(end);
  for (TensorId output : graph_.other_outputs)
    keep(output, end);
  if (graph_.loss.valid()) keep(graph_.loss, end);
  if (graph_.logits.valid() && options_.hold_output) keep(graph_.logits, end);
  if (graph_.logits.valid() && graph_.loss.valid() && !options_.hold_output) {
    keep(graph_.logits, training_.forward.back());
  }
  for (const LocalVariable& local : graph_.locals) {
    if (forward_operator_[local.until].valid()) keep(local.tensor, forward_operator_[local.until]);
  }
}

TrainingGraph GradientTape::run() {
  is_parameter_.assign(graph_.tensors.size(), 0);
  reached_.assign(graph_.nodes.size(), 0);
  for (TensorId p : graph_.parameters)
    is_parameter_[p] = 1;
  for (const Node& node : graph_.nodes) {
    if (!is_differentiable(node)) continue;
    for (TensorId in : node.inputs) {
      if (in.valid() && graph_.tensors[in].requires_grad) ++uses_left_[in];
    }
  }
  part_ = &training_.forward;
  phase_ = Phase::kForward;
  for (NodeId id : ids_of(graph_.nodes))
    emit_forward(id);
  part_ = &training_.backward;
  phase_ = Phase::kBackward;
  emit_root_gradient();
  for (std::size_t i = graph_.nodes.size(); i-- > 0;)
    emit_backward(NodeId(i));
  for (TensorId p : graph_.parameters) {
    if (pending_[p]) accumulate_leaf(p);  // some of its uses do not reach the loss
  }
  emit_ends();
  check_invariants(training_);
  return std::move(training_);
}

TrainingGraph differentiate(const Graph& graph, const FrameworkRules& rules,
                            const DifferentiateOptions& options) {
  return GradientTape(graph, rules, options).run();
}

namespace {

std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {
  hash ^= value + 0x9E3779B97F4A7C15ULL + (hash << 6U) + (hash >> 2U);
  return hash * 0xBF58476D1CE4E5B9ULL;
}

std::uint64_t hash_text(std::string_view text) {
  std::uint64_t hash = 1469598103934665603ULL;  // FNV-1a, the same on every platform
  for (char c : text)
    hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  return hash;
}

}  // namespace

std::uint64_t gradient_fingerprint(const TrainingGraph& graph) {
  IdVector<StorageId, std::uint64_t> content(graph.storages.size(), 0);
  for (StorageId s : ids_of(graph.storages))
    content[s] = hash_text(graph.storages[s].name);
  const auto play = [&](std::span<const OperatorId> part) {
    for (OperatorId id : part) {
      std::uint64_t hash = hash_text(graph.operators[id].name);
      for (const Touch& touch : graph.touches_of(id)) {
        if (touch.access <= Access::kMutate) hash = mix(hash, content[touch.storage]);
      }
      std::uint64_t index = 0;
      for (const Touch& touch : graph.touches_of(id)) {
        if (touch.access != Access::kRead) content[touch.storage] = mix(hash, ++index);
      }
    }
  };
  play(graph.forward);
  play(graph.backward);
  std::uint64_t fingerprint = 0;
  for (const TrainedParameter& p : graph.trained) {
    fingerprint += mix(hash_text(p.name), content[p.gradient]);
  }
  return fingerprint;
}

}  // namespace tidemark
