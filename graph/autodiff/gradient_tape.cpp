#include "graph/autodiff/gradient_tape.hpp"

#include <string>

#include <fmt/format.h>

#include "graph/core/errors.hpp"
#include "graph/operators/kernels.hpp"

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
  training_.checkpoint_stops_early = rules.checkpoint_stops_early;
  training_.samples = graph.samples;
  training_.fixes_samples = graph.fixes_samples;
  training_.tokens = graph.tokens;
  training_.parameters = graph.parameters;
  training_.tensors = graph.tensors.size();
  training_.operators.reserve(graph.nodes.size() * 4);
  training_.touches.reserve(graph.nodes.size() * 12);
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
       .dtype = dtype,
       .elements = tensor.elements(),
       .role = phase_ == Phase::kForward ? Role::kSavedActivation : Role::kActivationGradient,
       .layer = current_.valid() ? graph_.nodes[current_].layer : LayerId(),
       .initial = false,
       .persistent = false,
       .name = std::string(name)});
  references_.push_back(0);
  return tensor;
}

Tensor GradientTape::create_workspace(std::string_view name, const Shape& shape, DType dtype) {
  const Tensor tensor = create(name, shape, dtype);
  training_.storages[tensor.storage].role = Role::kWorkspace;
  return tensor;
}

StorageId GradientTape::add_temporary(Bytes bytes) {
  references_.push_back(0);
  return training_.storages.push_back(
      {.bytes = bytes,
       .role = Role::kTemporary,
       .layer = current_.valid() ? graph_.nodes[current_].layer : LayerId(),
       .name = "temporary"});
}

void GradientTape::launch(const BackwardKernel& kernel) {
  std::vector<Touch> touches;
  touches.reserve(kernel.reads.size() + kernel.creates.size() + kernel.mutates.size());
  for (const Tensor& t : kernel.reads)
    touches.push_back({content_of(t.storage), Access::kRead});
  for (const Tensor& t : kernel.mutates)
    touches.push_back({t.storage, Access::kMutate});
  for (const Tensor& t : kernel.creates)
    touches.push_back({t.storage, Access::kCreate});
  const Node* node = current_.valid() ? &graph_.nodes[current_] : nullptr;
  if (kernel.temporary > Bytes(0))
    touches.push_back({add_temporary(kernel.temporary), Access::kCreate});
  part_->push_back(training_.add_operator({.name = std::string(kernel.name),
                                           .family = node != nullptr ? node->family : nullptr,
                                           .part = kernel.part,
                                           .phase = phase_,
                                           .executor = Executor::kDevice,
                                           .node = current_,
                                           .layer = node != nullptr ? node->layer : LayerId(),
                                           .first_touch = 0,
                                           .touch_count = 0,
                                           .workspace = kernel.workspace,
                                           .work = kernel.work,
                                           .blocks_host = kernel.blocks_host},
                                          touches));
  const bool communicates = kernel.work.op_class == OperatorClass::kCollective;
  // Transfers between stages belong to no node and stay at the ends of backward.
  if (communicates && phase_ == Phase::kBackward && current_.valid()) issue_early();
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
      const OperatorId until = saved_until_.valid() ? saved_until_ : last;
      training_.holds.push_back({s, OperatorId(), until, HoldKind::kSaved});
    }
  }
  for (TensorId out : graph_.nodes[id].outputs) {
    if (pending_[out]) {
      const OperatorId until = incoming_until_.valid() ? incoming_until_ : last;
      training_.holds.push_back({pending_[out]->storage, OperatorId(), until, HoldKind::kSaved});
    }
  }
}

void GradientTape::deliver(TensorId target, const Tensor& gradient) {
  if (uses_left_[target] > 0) --uses_left_[target];
  pending_[target] = pending_[target] ? add_gradients(*pending_[target], gradient) : gradient;
}

// torch's InputBuffer::add: in place only when nobody else holds the first gradient, whose order in
// memory the sum has.
Tensor GradientTape::add_gradients(const Tensor& old, const Tensor& added) {
  Work work{.op_class = OperatorClass::kElementwise, .dtype = old.dtype};
  work.flops = Flops(static_cast<double>(old.elements().count));
  work.read = old.bytes() + added.bytes();
  work.written = old.bytes();
  const bool in_place = rules_.adds_gradients_in_place && references_[old.storage] == 1 &&
                        is_dense(old) && old.storage != added.storage;
  if (in_place) {
    launch({.name = "add_gradients",
            .part = OperatorPart::kAddGradients,
            .reads = {added},
            .mutates = {old},
            .work = work});
    --references_[added.storage];
    return old;
  }
  Tensor sum = create("gradient_sum", old.shape, old.dtype);
  sum.strides = dense_strides(old.shape, old.strides);
  launch({.name = "add_gradients",
          .part = OperatorPart::kAddGradients,
          .reads = {old, added},
          .creates = {sum},
          .work = work});
  --references_[old.storage];
  --references_[added.storage];
  references_[sum.storage] = 1;
  return sum;
}

// Whether another input waits for the same gradient. Views of one storage, as cat's backward makes
// them, are tensors of their own.
bool GradientTape::is_shared(TensorId leaf) const {
  const Tensor& gradient = *pending_[leaf];
  if (references_[gradient.storage] == 1) return false;
  for (TensorId other : ids_of(pending_)) {
    if (other != leaf && pending_[other] && pending_[other]->storage == gradient.storage &&
        pending_[other]->shape == gradient.shape) {
      return true;
    }
  }
  return false;
}

// AccumulateGrad with .grad None: the incoming tensor becomes .grad when nobody else holds it and
// it has the parameter's layout in memory; a view keeps its whole storage.
void GradientTape::accumulate_leaf(ParameterId id) {
  Parameter& parameter = training_.parameters[id];
  const Tensor gradient = *pending_[parameter.tensor];
  const Tensor& leaf = graph_.tensors[parameter.tensor];
  const DType wanted = options_.gradient_dtype.value_or(leaf.dtype);
  const Role role = training_.storages[gradient.storage].role;
  const bool fresh = role == Role::kActivationGradient ||
                     (role == Role::kSavedActivation && options_.takes_saved_gradients);
  const bool stolen =
      !is_shared(parameter.tensor) && gradient.dtype == wanted && gradient.is_contiguous() && fresh;
  Tensor kept = gradient;
  if (!stolen) {
    kept = create("gradient", leaf.shape, wanted);
    Work work{.op_class = OperatorClass::kElementwise, .dtype = wanted};
    work.read = gradient.bytes();
    work.written = kept.bytes();
    launch({.name = "copy_gradient",
            .part = OperatorPart::kCopyGradient,
            .reads = {gradient},
            .creates = {kept},
            .work = work});
  }
  --references_[gradient.storage];
  pending_[parameter.tensor].reset();
  Storage& storage = training_.storages[kept.storage];
  storage.role = Role::kGradient;
  storage.persistent = true;
  storage.layer = parameter.layer;
  storage.name = parameter.name + ".grad";
  parameter.gradient = kept.storage;
  parameter.gradient_dtype = wanted;
  training_.trained.push_back(id);
}

}  // namespace tidemark
