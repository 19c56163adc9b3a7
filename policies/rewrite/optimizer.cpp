#include "policies/rewrite/optimizer.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "graph/core/errors.hpp"
#include "graph/operators/kernels.hpp"
#include "policies/rewrite/optimizer_states.hpp"

namespace tidemark {
namespace {

constexpr std::string_view kLetters = "wpgcdmvsoklrqntu";  // optimizer_kernels.hpp
constexpr bool is_temporary(char letter) {
  return letter == 'c' || letter == 'd' || letter == 't' || letter == 'u';
}
constexpr std::size_t index_of(char letter) {
  return kLetters.find(letter);
}

// One parameter's tensors by letter; invalid where there is none.
struct Slot {
  const TrainedParameter* trained = nullptr;
  DType weights = DType::kFloat32;  // of what is updated, its moments and temporaries
  std::array<StorageId, kLetters.size()> storage{};

  [[nodiscard]] StorageId of(char letter) const { return storage[index_of(letter)]; }
};

// The update of some parameters by one algorithm.
class OptimizerStep {
 public:
  OptimizerStep(TrainingGraph& graph, const OptimizerSpec& spec, const PrecisionRules& precision,
                const FrameworkRules& rules)
      : graph_(graph),
        spec_(spec),
        precision_(precision),
        rules_(rules),
        implementation_(implementation_of(spec, rules, precision.master_weights)),
        kernels_(optimizer_kernels(spec, implementation_, rules, precision.master_weights)) {}
  void build(const std::vector<const TrainedParameter*>& parameters);
  // One operator of the host for all of them.
  void build_on_host(const std::vector<const TrainedParameter*>& parameters);

 private:
  void add_slot(const TrainedParameter& trained);
  void add_state(Slot& slot);
  [[nodiscard]] Work loop_work(const Slot& slot) const;
  void add_loop();
  void add_muon();
  void hold_variable(StorageId variable, OperatorId since, OperatorId until);
  void add_touches(const OptimizerKernel& kernel, Slot& slot, std::vector<Touch>& touches,
                   std::vector<StorageId>& variables);
  [[nodiscard]] int launches_of(const OptimizerKernel& kernel,
                                std::span<const std::int64_t> elements) const;
  void add_foreach();
  [[nodiscard]] StorageId add_storage(const Slot& slot, std::string_view suffix, Bytes bytes,
                                      Role role);
  [[nodiscard]] Bytes bytes_of(const Slot& slot, char letter) const;
  void add_work(const OptimizerKernel& kernel, const Slot& slot, Work& work) const;
  OperatorId add_operator(std::string_view kernel, LayerId layer, const std::vector<Touch>& touches,
                          Bytes workspace, const Work& work);

  TrainingGraph& graph_;
  const OptimizerSpec& spec_;
  const PrecisionRules& precision_;
  const FrameworkRules& rules_;
  OptimizerImplementation implementation_;
  std::vector<OptimizerKernel> kernels_;
  std::vector<Slot> slots_;
};

StorageId OptimizerStep::add_storage(const Slot& slot, std::string_view suffix, Bytes bytes,
                                     Role role) {
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
void OptimizerStep::add_slot(const TrainedParameter& trained) {
  Slot slot{.trained = &trained, .weights = trained.dtype};
  const auto set = [&](char letter, StorageId id) { slot.storage[index_of(letter)] = id; };
  const bool has_master = precision_.master_weights && size_of(trained.dtype) < 4;
  set('g', trained.gradient);
  set('w', trained.parameter);
  if (has_master) {
    slot.weights = DType::kFloat32;
    const Bytes bytes(trained.elements * size_of(slot.weights));
    set('p', trained.parameter);
    set('w', add_storage(slot, "master", bytes, Role::kOptimizerState));
    graph_.storages[slot.of('w')].initial = true;
  }
  if (precision_.master_weights && trained.gradient_dtype == slot.weights) set('c', slot.of('g'));
  add_state(slot);
  slots_.push_back(slot);
}

void OptimizerStep::add_state(Slot& slot) {
  std::vector<Touch> touches;
  Work work{.op_class = OperatorClass::kMemset, .dtype = slot.weights, .launches = 0};
  for (const OptimizerStateTensor& state :
       optimizer_states(spec_, implementation_, rules_, *slot.trained, slot.weights,
                        precision_.master_weights)) {
    StorageId& id = slot.storage[index_of(state.letter)];
    id = add_storage(slot, state.suffix, state.bytes, Role::kOptimizerState);
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
              .phase = Phase::kOptimizer,
              .executor = slot.trained->updated_by,
              .layer = slot.trained->layer,
              .work = work};
  graph_.optimizer_first.push_back(graph_.add_operator(std::move(op), touches));
}

Bytes OptimizerStep::bytes_of(const Slot& slot, char letter) const {
  if (slot.of(letter).valid()) return graph_.storages[slot.of(letter)].bytes;
  return is_temporary(letter) ? Bytes(slot.trained->elements * size_of(slot.weights)) : Bytes(0);
}

void OptimizerStep::add_work(const OptimizerKernel& kernel, const Slot& slot, Work& work) const {
  for (char letter : kernel.reads)
    work.read += bytes_of(slot, letter);
  for (char letter : kernel.writes)
    work.written += bytes_of(slot, letter);
  work.flops += Flops(kernel.flops * static_cast<double>(slot.trained->elements));
}

// Touches of one operator are distinct by construction. TrainingGraph::add_operator compares all
// pairs of them, which is slow for an operator over thousands of parameters.
OperatorId OptimizerStep::add_operator(std::string_view kernel, LayerId layer,
                                       const std::vector<Touch>& touches, Bytes workspace,
                                       const Work& work) {
  Operator op{.name = fmt::format("{}.{}", name_of(spec_.kind), kernel),
              .phase = Phase::kOptimizer,
              .layer = layer,
              .first_touch = static_cast<std::uint32_t>(graph_.touches.size()),
              .touch_count = static_cast<std::uint32_t>(touches.size()),
              .workspace = workspace,
              .work = work};
  graph_.touches.insert(graph_.touches.end(), touches.begin(), touches.end());
  graph_.optimizer.push_back(graph_.operators.push_back(std::move(op)));
  return graph_.optimizer.back();
}

// Whether a parameter takes part: it may have no counter, no master to copy from, or a gradient
// that needs no conversion.
bool runs_on(const OptimizerKernel& kernel, const Slot& slot) {
  if (kernel.writes == "s" || kernel.writes == "p" || kernel.writes == "n") {
    return slot.of(kernel.writes[0]).valid();
  }
  return kernel.writes != "c" || slot.of('c') != slot.of('g');
}

// All kernels on one parameter, one after the other.
Work OptimizerStep::loop_work(const Slot& slot) const {
  Work work{.op_class = OperatorClass::kOptimizer, .dtype = slot.weights, .launches = 0};
  for (const OptimizerKernel& kernel : kernels_) {
    if (!runs_on(kernel, slot)) continue;
    add_work(kernel, slot, work);
    ++work.launches;
  }
  return work;
}

// One operator per parameter. The denominator of Adam is a Python variable: while iteration i makes
// its own, that of i - 1 is alive.
//
//   denom 0   |======|===|
//   denom 1          |======|===|
//   denom 2                 |======|
void OptimizerStep::add_loop() {
  StorageId last_variable;
  for (const Slot& slot : slots_) {
    const LoopTemporaries temporaries = loop_temporaries(spec_, rules_, slot.trained->shape);
    std::vector<Touch> touches = {{slot.of('g'), Access::kRead}};
    for (char letter : std::string_view("swmvoklrqn")) {
      if (slot.of(letter).valid()) touches.push_back({slot.of(letter), Access::kMutate});
    }
    if (slot.of('p').valid()) touches.push_back({slot.of('p'), Access::kOverwrite});
    const Bytes bytes(slot.trained->elements * size_of(slot.weights));
    const bool fused = implementation_ == OptimizerImplementation::kFused;
    const bool converts = precision_.master_weights && !slot.of('c').valid() && !fused;
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
    const OperatorId before = graph_.optimizer.empty() ? OperatorId() : graph_.optimizer.back();
    const OperatorId id =
        add_operator("update", slot.trained->layer, touches, workspace, loop_work(slot));
    hold_variable(last_variable, before, id);
    last_variable = variable;
  }
}

void OptimizerStep::hold_variable(StorageId variable, OperatorId since, OperatorId until) {
  if (!rules_.holds || !variable.valid()) return;
  graph_.holds.push_back({variable, since, until, HoldKind::kLocal});
}

// Per matrix: the momentum and the look-ahead, which overwrites the gradient; Newton and Schulz's
// products, whose result is a variable of the loop in bf16; the update.
void OptimizerStep::add_muon() {
  StorageId last_variable;
  for (const Slot& slot : slots_) {
    const Shape& shape = slot.trained->shape;
    const LayerId layer = slot.trained->layer;
    const Bytes bytes(slot.trained->elements * size_of(slot.weights));
    const bool converts = precision_.master_weights && !slot.of('c').valid();
    Work momentum{.op_class = OperatorClass::kOptimizer, .dtype = slot.weights, .launches = 2};
    momentum.flops = Flops(6 * static_cast<double>(slot.trained->elements));
    momentum.read = bytes * 4;
    momentum.written = bytes * 2;
    const OperatorId before = graph_.optimizer.empty() ? OperatorId() : graph_.optimizer.back();
    const std::vector<Touch> averaged = {{slot.of('g'), Access::kMutate},
                                         {slot.of('m'), Access::kMutate}};
    add_operator("momentum", layer, averaged, converts ? bytes : Bytes(0), momentum);

    const Bytes update(slot.trained->elements * size_of(DType::kBFloat16));
    const StorageId variable = add_storage(slot, "orthogonal", update, Role::kTemporary);
    Work products{.op_class = OperatorClass::kMatmul, .dtype = DType::kBFloat16, .launches = 32};
    products.flops = newton_schulz_flops(shape);
    products.read = newton_schulz_bytes(shape) * 5;
    products.written = newton_schulz_bytes(shape) * 5;
    const std::int64_t rows = std::min(shape[0], element_count(shape) / shape[0]);
    products.extent = {rows, rows, element_count(shape) / rows, 5};
    const std::vector<Touch> made = {{slot.of('g'), Access::kRead}, {variable, Access::kCreate}};
    const OperatorId id =
        add_operator("orthogonalize", layer, made, newton_schulz_bytes(shape) - update, products);
    hold_variable(last_variable, before, id);

    Work work{.op_class = OperatorClass::kOptimizer, .dtype = slot.weights, .launches = 2};
    work.flops = Flops(3 * static_cast<double>(slot.trained->elements));
    work.read = bytes * 2 + update;
    work.written = bytes * 2;
    std::vector<Touch> touches = {{slot.of('w'), Access::kMutate}, {variable, Access::kRead}};
    if (slot.of('p').valid()) touches.push_back({slot.of('p'), Access::kOverwrite});
    add_operator("update", layer, touches, Bytes(0), work);
    last_variable = variable;
  }
}

// The touches of one kernel on one parameter. Temporaries appear with the kernel that writes them
// first; t and u are variables.
void OptimizerStep::add_touches(const OptimizerKernel& kernel, Slot& slot,
                                std::vector<Touch>& touches, std::vector<StorageId>& variables) {
  for (char letter : kernel.writes) {
    Access access = Access::kOverwrite;
    if (kernel.reads.find(letter) != std::string::npos) access = Access::kMutate;
    if (!slot.of(letter).valid() && is_temporary(letter)) {
      access = Access::kCreate;
      slot.storage[index_of(letter)] =
          add_storage(slot, "temporary", bytes_of(slot, letter), Role::kTemporary);
      if (letter == 't' || letter == 'u') variables.push_back(slot.of(letter));
    }
    if (slot.of(letter).valid()) touches.push_back({slot.of(letter), access});
  }
  for (char letter : kernel.reads) {
    if (kernel.writes.find(letter) != std::string::npos || !slot.of(letter).valid()) continue;
    touches.push_back({slot.of(letter), Access::kRead});
  }
}

int OptimizerStep::launches_of(const OptimizerKernel& kernel,
                               std::span<const std::int64_t> elements) const {
  if (!rules_.multi_tensor_kernels) return static_cast<int>(elements.size());
  std::string lists = kernel.reads + kernel.writes;
  std::erase(lists, 's');  // counters are passed beside the lists
  std::sort(lists.begin(), lists.end());
  lists.erase(std::unique(lists.begin(), lists.end()), lists.end());
  return foreach_launches(elements, lists.size());
}

// One operator per kernel, over all parameters; one operator in all when fused.
void OptimizerStep::add_foreach() {
  const bool fused = implementation_ == OptimizerImplementation::kFused;
  const LoopTemporaries inside = loop_temporaries(spec_, rules_, {});
  const Bytes scalars = fused ? Bytes(0) : std::max(inside.scalars, inside.after);
  std::vector<Hold> holds;
  for (const OptimizerKernel& kernel : kernels_) {
    std::vector<Touch> touches;
    std::vector<StorageId> variables;
    std::vector<std::int64_t> elements;
    Work work{.op_class = OperatorClass::kOptimizer, .dtype = slots_.front().weights};
    for (Slot& slot : slots_) {
      if (!runs_on(kernel, slot)) continue;
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
    hold.until = graph_.optimizer.back();
    graph_.holds.push_back(hold);
  }
}

void OptimizerStep::build(const std::vector<const TrainedParameter*>& parameters) {
  if (parameters.empty()) return;
  for (const TrainedParameter* trained : parameters)
    add_slot(*trained);
  if (spec_.kind == OptimizerKind::kMuon) {
    add_muon();
  } else if (implementation_ == OptimizerImplementation::kLoop ||
             spec_.kind == OptimizerKind::kAdamW8bit) {  // a kernel per parameter
    add_loop();
  } else {
    add_foreach();
  }
}

// As DeepSpeed's CPU Adam and torch's fused one: a single pass over memory that reads each tensor
// once and writes each that changes once, the device's narrower copy of the weights included.
void OptimizerStep::build_on_host(const std::vector<const TrainedParameter*>& parameters) {
  if (spec_.kind == OptimizerKind::kMuon || spec_.kind == OptimizerKind::kAdamW8bit) {
    throw UserError({}, "policies.offload_optimizer",
                    fmt::format("{} has no implementation on the CPU; choose another optimizer, "
                                "such as adamw, or leave the policy out",
                                name_of(spec_.kind)));
  }
  for (const TrainedParameter* trained : parameters)
    add_slot(*trained);
  Work work{.op_class = OperatorClass::kOptimizer, .dtype = slots_.front().weights};
  std::vector<Touch> touches;
  for (const Slot& slot : slots_) {
    touches.push_back({slot.of('g'), Access::kRead});
    work.read += bytes_of(slot, 'g');
    for (char letter : std::string_view("swmvoklrqn")) {
      if (!slot.of(letter).valid()) continue;
      touches.push_back({slot.of(letter), Access::kMutate});
      work.read += bytes_of(slot, letter);
      work.written += bytes_of(slot, letter);
    }
    if (slot.of('p').valid()) {
      touches.push_back({slot.of('p'), Access::kOverwrite});
      work.written += bytes_of(slot, 'p');
    }
    work.flops += loop_work(slot).flops;
  }
  const LayerId layer = slots_.size() == 1 ? slots_.front().trained->layer : LayerId();
  const OperatorId id = add_operator("host_update", layer, touches, Bytes(0), work);
  graph_.operators[id].executor = Executor::kHost;
}

// In the order of model.parameters(), which is that of creation; backward goes the other way.
std::vector<const TrainedParameter*> in_order(const TrainingGraph& graph) {
  std::vector<const TrainedParameter*> order;
  for (const TrainedParameter& trained : graph.trained)
    order.push_back(&trained);
  std::sort(order.begin(), order.end(), [](const TrainedParameter* a, const TrainedParameter* b) {
    return a->parameter < b->parameter;
  });
  return order;
}

}  // namespace

void Optimizer::apply(TrainingGraph& graph, const RewriteContext& /*context*/) const {
  std::vector<const TrainedParameter*> order = in_order(graph);
  // Host first: the device's part of the step runs beside it.
  const auto on_device = std::stable_partition(
      order.begin(), order.end(),
      [](const TrainedParameter* t) { return t->updated_by == Executor::kHost; });
  for (auto begin = order.begin(); begin != on_device;) {
    const auto end = std::find_if(begin, on_device, [&](const TrainedParameter* t) {
      return t->update_group != (*begin)->update_group;
    });
    OptimizerStep(graph, spec_, precision_, rules_).build_on_host({begin, end});
    begin = end;
  }
  order.erase(order.begin(), on_device);
  if (spec_.kind != OptimizerKind::kMuon) {
    OptimizerStep(graph, spec_, precision_, rules_).build(order);
    return;
  }
  const std::vector<char> chosen = muon_matrices(graph);
  std::vector<const TrainedParameter*> matrices;
  std::vector<const TrainedParameter*> others;
  for (const TrainedParameter* trained : order) {
    const auto index = static_cast<std::size_t>(trained - graph.trained.data());
    (chosen[index] != 0 ? matrices : others).push_back(trained);
  }
  OptimizerStep(graph, spec_, precision_, rules_).build(matrices);
  OptimizerSpec adamw = spec_;  // Jordan's single-device code: AdamW for what is no hidden matrix
  adamw.kind = OptimizerKind::kAdamW;
  OptimizerStep(graph, adamw, precision_, rules_).build(others);
}

}  // namespace tidemark
