#include "policies/rewrite/optimizer_step.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "graph/core/errors.hpp"
#include "graph/operators/kernels.hpp"
#include "policies/rewrite/optimizer_kernels.hpp"

namespace tidemark {
namespace optimizer_step_detail {
namespace {

// The tensors that an operator over one parameter touches beside its gradient, in this order.
constexpr auto kPersistentTensors = [] {
  std::array<OptimizerTensor, kPersistentOptimizerTensors> tensors{};
  for (std::size_t i = 0; i < tensors.size(); ++i)
    tensors[i] = static_cast<OptimizerTensor>(i);
  return tensors;
}();

bool contains(const OptimizerTensors& tensors, OptimizerTensor tensor) {
  return std::find(tensors.begin(), tensors.end(), tensor) != tensors.end();
}

// Whether a parameter takes part: it may have no counter, no master to copy from, or a gradient
// that needs no conversion.
bool runs_on(const OptimizerKernel& kernel, const OptimizerSlot& slot) {
  if (kernel.writes.size() != 1) return true;
  switch (const OptimizerTensor written = kernel.writes.front()) {
    case OptimizerTensor::kStep:
    case OptimizerTensor::kParameter:
    case OptimizerTensor::kRootMeanSquare:
      return slot.of(written).valid();
    case OptimizerTensor::kConvertedGradient:
      return slot.of(written) != slot.of(OptimizerTensor::kGradient);
    default:
      return true;
  }
}

}  // namespace
}  // namespace optimizer_step_detail

OptimizerStep::OptimizerStep(TrainingGraph& graph, const OptimizerSpec& spec,
                             const PrecisionRules& precision, const FrameworkRules& rules,
                             const ParameterUses& uses)
    : graph_(graph),
      spec_(spec),
      precision_(precision),
      rules_(rules),
      uses_(uses),
      implementation_(implementation_of(spec, rules, precision.master_weights)),
      kernels_(optimizer_kernels(spec, implementation_, rules, precision.master_weights)) {}

StorageId OptimizerStep::add_storage(const OptimizerSlot& slot, std::string_view suffix,
                                     Bytes bytes, Role role) {
  return graph_.storages.push_back(
      {.bytes = bytes,
       .role = role,
       .layer = slot.trained->layer,
       .initial = false,
       .persistent = role == Role::kOptimizerState,
       .home = role == Role::kOptimizerState ? slot.trained->state_home : Tier::kDevice,
       .name = fmt::format("{}.{}", slot.trained->name, suffix)});
}

// A parameter that is fp32 already is its own master, and a gradient in the masters' type needs no
// conversion.
void OptimizerStep::add_slot(const UpdatedTensor& trained) {
  OptimizerSlot slot{.trained = &trained, .weights = trained.dtype};
  const bool has_master = precision_.master_weights && bits_of(trained.dtype) < 32;
  slot.set(OptimizerTensor::kGradient, trained.gradient);
  slot.set(OptimizerTensor::kWeights, trained.updated);
  if (has_master) {
    slot.weights = DType::kFloat32;
    const Bytes bytes = tidemark::bytes_of(slot.weights, trained.elements);
    slot.set(OptimizerTensor::kParameter, trained.updated);
    slot.set(OptimizerTensor::kWeights, add_storage(slot, "master", bytes, Role::kOptimizerState));
    graph_.storages[slot.of(OptimizerTensor::kWeights)].initial = true;
  }
  if (precision_.master_weights && trained.gradient_dtype == slot.weights)
    slot.set(OptimizerTensor::kConvertedGradient, slot.of(OptimizerTensor::kGradient));
  add_state(slot);
  slots_.push_back(slot);
}

void OptimizerStep::add_state(OptimizerSlot& slot) {
  std::vector<Touch> touches;
  Work work{.op_class = OperatorClass::kMemset, .dtype = slot.weights, .launches = 0};
  for (const OptimizerState& state :
       optimizer_states(spec_, implementation_, rules_, *slot.trained, slot.weights,
                        precision_.master_weights, use_of(uses_, *slot.trained))) {
    const StorageId id = add_storage(slot, state.suffix, state.bytes, Role::kOptimizerState);
    slot.set(state.tensor, id);
    if (state.from_start) {
      graph_.storages[id].initial = true;
      continue;
    }
    touches.push_back({id, Access::kCreate});
    work.written += state.bytes;
    ++work.launches;
  }
  if (touches.empty()) return;
  Operator op{.name = fmt::format("{}.create_state", name_of(spec_.kind)),
              .part = OperatorPart::kCreateState,
              .phase = Phase::kOptimizer,
              .executor = slot.trained->updated_by,
              .layer = slot.trained->layer,
              .work = work};
  graph_.part(PartKind::kOptimizerFirst).push_back(graph_.add_operator(std::move(op), touches));
}

void OptimizerStep::add_states_from_start(const UpdatedTensor& unused) {
  const OptimizerSlot slot{.trained = &unused, .weights = unused.dtype};
  for (const OptimizerState& state :
       optimizer_states(spec_, implementation_, rules_, unused, slot.weights,
                        precision_.master_weights, use_of(uses_, unused))) {
    if (!state.from_start) continue;
    const StorageId id = add_storage(slot, state.suffix, state.bytes, Role::kOptimizerState);
    graph_.storages[id].initial = true;
  }
}

Bytes OptimizerStep::bytes_of(const OptimizerSlot& slot, OptimizerTensor tensor) const {
  // These may be parts of a storage.
  const UpdatedTensor& part = *slot.trained;
  const bool has_master = slot.of(OptimizerTensor::kParameter).valid();
  if (tensor == OptimizerTensor::kGradient)
    return tidemark::bytes_of(part.gradient_dtype, part.elements);
  if (tensor == OptimizerTensor::kConvertedGradient)
    return tidemark::bytes_of(slot.weights, part.elements);
  if (tensor == OptimizerTensor::kParameter && has_master)
    return tidemark::bytes_of(part.dtype, part.elements);
  if (tensor == OptimizerTensor::kWeights) return tidemark::bytes_of(slot.weights, part.elements);
  if (slot.of(tensor).valid()) return graph_.storages[slot.of(tensor)].bytes;
  if (tensor == OptimizerTensor::kLearningRate) {
    return tidemark::bytes_of(DType::kFloat32, Elements(1));
  }
  return is_temporary(tensor) ? tidemark::bytes_of(slot.weights, slot.trained->elements) : Bytes(0);
}

void OptimizerStep::add_work(const OptimizerKernel& kernel, const OptimizerSlot& slot,
                             Work& work) const {
  for (const OptimizerTensor tensor : kernel.reads)
    work.read += bytes_of(slot, tensor);
  for (const OptimizerTensor tensor : kernel.writes)
    work.written += bytes_of(slot, tensor);
  work.flops += Flops(kernel.flops * static_cast<double>(slot.trained->elements.count));
}

// Touches of one operator are distinct by construction. TrainingGraph::add_operator compares all
// pairs of them, which is slow for an operator over thousands of parameters.
OperatorId OptimizerStep::add_operator(std::string_view kernel, LayerId layer,
                                       const std::vector<Touch>& touches, Bytes workspace,
                                       const Work& work, PartKind part) {
  Operator op{.name = fmt::format("{}.{}", name_of(spec_.kind), kernel),
              .part = OperatorPart::kUpdate,
              .phase = Phase::kOptimizer,
              .layer = layer,
              .first_touch = static_cast<std::uint32_t>(graph_.touches.size()),
              .touch_count = static_cast<std::uint32_t>(touches.size()),
              .workspace = workspace,
              .work = work};
  graph_.touches.insert(graph_.touches.end(), touches.begin(), touches.end());
  graph_.part(part).push_back(graph_.operators.push_back(std::move(op)));
  return graph_.part(part).back();
}

// Returns the work of all kernels on one parameter, one after the other.
Work OptimizerStep::loop_work(const OptimizerSlot& slot) const {
  Work work{.op_class = OperatorClass::kOptimizer, .dtype = slot.weights, .launches = 0};
  for (const OptimizerKernel& kernel : kernels_) {
    if (!optimizer_step_detail::runs_on(kernel, slot)) continue;
    add_work(kernel, slot, work);
    ++work.launches;
  }
  return work;
}

// Adds one operator per parameter. The denominator of Adam is a Python variable: while iteration i
// makes its own, that of i - 1 is alive.
//
//   denom 0   |======|===|
//   denom 1          |======|===|
//   denom 2                 |======|
void OptimizerStep::add_loop() {
  StorageId last_variable;
  for (const OptimizerSlot& slot : slots_) {
    const bool fused = implementation_ == OptimizerImplementation::kFused;
    const LoopTemporaries temporaries =
        fused ? LoopTemporaries{} : loop_temporaries(spec_, rules_, slot.trained->shape);
    std::vector<Touch> touches = {{slot.of(OptimizerTensor::kGradient), Access::kRead}};
    for (const OptimizerTensor tensor : optimizer_step_detail::kPersistentTensors) {
      if (slot.of(tensor).valid()) touches.push_back({slot.of(tensor), Access::kMutate});
    }
    if (slot.of(OptimizerTensor::kParameter).valid())
      touches.push_back({slot.of(OptimizerTensor::kParameter), Access::kOverwrite});
    const Bytes bytes = tidemark::bytes_of(slot.weights, slot.trained->elements);
    const bool converts = precision_.master_weights &&
                          !slot.of(OptimizerTensor::kConvertedGradient).valid() && !fused;
    for (int k = 0; k < temporaries.inside + (converts ? 1 : 0); ++k) {
      touches.push_back({add_storage(slot, "temporary", bytes, Role::kTemporary), Access::kCreate});
    }
    const bool overlaps = rules_.holds && last_variable.valid();
    const Bytes old = overlaps ? graph_.storages[last_variable].bytes : Bytes(0);
    const Bytes workspace = std::max(temporaries.scalars, temporaries.after - old);
    StorageId variable;
    if (temporaries.outlives) {
      variable = add_storage(slot, "variable", bytes, Role::kTemporary);
      touches.push_back({variable, Access::kCreate});
    }
    const OperatorId before = graph_.part(PartKind::kOptimizer).empty()
                                  ? OperatorId()
                                  : graph_.part(PartKind::kOptimizer).back();
    const OperatorId id =
        add_operator("update", slot.trained->layer, touches, workspace, loop_work(slot));
    graph_.operators[id].blocks_host = spec_.kind->synchronises;
    hold_variable(last_variable, before, id);
    last_variable = variable;
  }
}

void OptimizerStep::hold_variable(StorageId variable, OperatorId since, OperatorId until) {
  if (!rules_.holds || !variable.valid()) return;
  graph_.holds.push_back({variable, since, until, HoldKind::kLocal});
}

// Adds the touches of one kernel on one parameter. Temporaries are created by the kernel that
// writes them first; the last two are variables.
void OptimizerStep::add_touches(const OptimizerKernel& kernel, OptimizerSlot& slot,
                                std::vector<Touch>& touches, std::vector<StorageId>& variables) {
  for (const OptimizerTensor tensor : kernel.writes) {
    Access access = Access::kOverwrite;
    if (optimizer_step_detail::contains(kernel.reads, tensor)) access = Access::kMutate;
    if (!slot.of(tensor).valid() && is_temporary(tensor)) {
      access = Access::kCreate;
      slot.set(tensor, add_storage(slot, "temporary", bytes_of(slot, tensor), Role::kTemporary));
      if (is_variable(tensor)) variables.push_back(slot.of(tensor));
    }
    if (slot.of(tensor).valid()) touches.push_back({slot.of(tensor), access});
  }
  for (const OptimizerTensor tensor : kernel.reads) {
    if (optimizer_step_detail::contains(kernel.writes, tensor) || !slot.of(tensor).valid())
      continue;
    touches.push_back({slot.of(tensor), Access::kRead});
  }
}

int OptimizerStep::launches_of(const OptimizerKernel& kernel,
                               std::span<const Elements> elements) const {
  if (!rules_.multi_tensor_kernels) return static_cast<int>(elements.size());
  OptimizerTensors lists = kernel.reads;
  lists.insert(lists.end(), kernel.writes.begin(), kernel.writes.end());
  std::erase(lists, OptimizerTensor::kStep);  // counters are passed beside the lists
  std::sort(lists.begin(), lists.end());
  lists.erase(std::unique(lists.begin(), lists.end()), lists.end());
  return foreach_launches(elements, lists.size());
}

// Adds one operator per kernel, over all parameters; one operator in all when fused.
void OptimizerStep::add_foreach() {
  const bool fused = implementation_ == OptimizerImplementation::kFused;
  const LoopTemporaries inside = loop_temporaries(spec_, rules_, {});
  const Bytes scalars = fused ? Bytes(0) : std::max(inside.scalars, inside.after);
  std::vector<Hold> holds;
  for (const OptimizerKernel& kernel : kernels_) {
    std::vector<Touch> touches;
    std::vector<StorageId> variables;
    std::vector<Elements> elements;
    Work work{.op_class = OperatorClass::kOptimizer, .dtype = slots_.front().weights};
    for (OptimizerSlot& slot : slots_) {
      if (!optimizer_step_detail::runs_on(kernel, slot)) continue;
      add_touches(kernel, slot, touches, variables);
      add_work(kernel, slot, work);
      elements.push_back(slot.trained->elements);
    }
    if (elements.empty()) continue;
    work.launches = launches_of(kernel, elements);
    const std::string kernel_name = fused ? "fused" : fmt::format("foreach_{}", kernel.name);
    const OperatorId id = add_operator(kernel_name, {}, touches, scalars, work);
    for (StorageId s : variables)
      holds.push_back({s, id, id, HoldKind::kLocal});
  }
  if (!rules_.holds) return;
  for (Hold& hold : holds) {  // until the function returns
    hold.until = graph_.part(PartKind::kOptimizer).back();
    graph_.holds.push_back(hold);
  }
}

void OptimizerStep::build(const std::vector<const UpdatedTensor*>& parameters) {
  if (parameters.empty()) return;
  for (const UpdatedTensor* trained : parameters)
    add_slot(*trained);
  if (spec_.kind->add_matrix_kernels != nullptr) {
    add_matrices();
  } else if (implementation_ == OptimizerImplementation::kLoop ||
             spec_.kind->one_kernel_per_parameter ||
             spec_.stochastic_rounding) {  // a kernel per parameter
    add_loop();
  } else {
    add_foreach();
  }
}

// Builds DeepSpeed's CPU Adam or torch's fused one: a single pass over memory that reads each
// tensor once and writes each that changes once, the device's narrower copy of the weights
// included.
void OptimizerStep::build_on_host(const std::vector<const UpdatedTensor*>& parameters) {
  if (!spec_.kind->on_host) {
    throw UserError({}, "policies.offload_optimizer",
                    fmt::format("{} has no implementation on the CPU; choose another optimizer, "
                                "such as adamw, or leave the policy out",
                                name_of(spec_.kind)));
  }
  for (const UpdatedTensor* trained : parameters)
    add_slot(*trained);
  Work work{.op_class = OperatorClass::kOptimizer, .dtype = slots_.front().weights};
  std::vector<Touch> touches;
  for (const OptimizerSlot& slot : slots_) {
    touches.push_back({slot.of(OptimizerTensor::kGradient), Access::kRead});
    work.read += bytes_of(slot, OptimizerTensor::kGradient);
    for (const OptimizerTensor tensor : optimizer_step_detail::kPersistentTensors) {
      if (!slot.of(tensor).valid()) continue;
      touches.push_back({slot.of(tensor), Access::kMutate});
      work.read += bytes_of(slot, tensor);
      work.written += bytes_of(slot, tensor);
    }
    if (slot.of(OptimizerTensor::kParameter).valid()) {
      touches.push_back({slot.of(OptimizerTensor::kParameter), Access::kOverwrite});
      work.written += bytes_of(slot, OptimizerTensor::kParameter);
    }
    work.flops += loop_work(slot).flops;
  }
  const LayerId layer = slots_.size() == 1 ? slots_.front().trained->layer : LayerId();
  const OperatorId id = add_operator("host_update", layer, touches, Bytes(0), work);
  graph_.operators[id].executor = Executor::kHost;
}

}  // namespace tidemark
