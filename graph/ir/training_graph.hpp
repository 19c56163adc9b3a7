// The training graph: one training step as kernels that touch storages.
//
// A policy and the simulator see nothing below this level. Operators are kept once; steps,
// micro-batches and recomputation repeat their ids in a ProgramOrder.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/core/ids.hpp"
#include "graph/ir/graph.hpp"
#include "graph/ir/step_parts.hpp"
#include "graph/ir/tensor.hpp"
#include "graph/ir/work.hpp"

namespace tidemark {

enum class Phase : std::uint8_t { kForward, kBackward, kOptimizer };
inline constexpr int kPhases = 3;
[[nodiscard]] constexpr std::string_view name_of(Phase phase) {
  constexpr std::string_view kNames[] = {"forward", "backward", "optimizer"};
  return kNames[static_cast<int>(phase)];
}

// The ways in which an operator touches a storage, weakest first.
enum class Access : std::uint8_t {
  kRead,       // the content is needed
  kMutate,     // changed in place: the old content is needed
  kOverwrite,  // changed in place: the old content is not needed (zero_, copy_)
  kCreate,     // a fresh allocation
};

struct Touch {
  StorageId storage;
  Access access = Access::kRead;
};

struct Operator {
  std::string name;  // "linear.weight_gradient", for people
  // The family of the forward node; null where there is no node, as for the optimizer.
  const OperatorFamily* family = nullptr;
  OperatorPart part = OperatorPart::kOther;
  Phase phase = Phase::kForward;
  Executor executor = Executor::kDevice;
  NodeId node;  // the forward node it belongs to; invalid for optimizer operators
  LayerId layer;
  std::uint32_t first_touch = 0;
  std::uint32_t touch_count = 0;
  Bytes workspace;
  Work work;
  bool blocks_host = false;  // the host waits until the device has done everything issued so far
  // Runs instead of this operator where a plan recomputes it: it creates the same contents in the
  // same storages, from what the step has kept of them, such as a gather from larger shards. No
  // part lists it. Invalid: the operator itself runs again.
  OperatorId recomputed_by;

  // The name of the family whose forward kernel this is: "linear"; empty for any other part.
  [[nodiscard]] std::string_view forward_family() const {
    const bool forward = part == OperatorPart::kForward ||
                         (part == OperatorPart::kDequantise && phase == Phase::kForward);
    return forward && family != nullptr ? family->name : std::string_view();
  }
};

// Keeps `storage` from being freed before an operator that ends later than its last use.
enum class HoldKind : std::uint8_t {
  kSaved,  // autograd holds it until a backward node returns: a decision may replace it
  kLocal,  // a variable holds it: no decision helps
};
struct Hold {
  StorageId storage;
  OperatorId since;  // the variable exists from this operator on; invalid for kSaved
  OperatorId until;  // released when this operator has ended
  HoldKind kind = HoldKind::kSaved;
};

struct TrainingGraph {
  std::string name;
  IdVector<StorageId, Storage> storages;
  IdVector<OperatorId, Operator> operators;
  std::vector<Touch> touches;  // touches of each operator in turn, see Operator::first_touch
  IdVector<LayerId, Layer> layers;
  std::vector<Hold> holds;
  IdVector<ParameterId, Parameter> parameters;  // parameters in the order of model.parameters()
  // Parameters with a gradient, in the order in which it is complete.
  std::vector<ParameterId> trained;
  // The optimizer updates these, in this order: the trained parameters in that of
  // model.parameters(), until a rewrite shards them.
  std::vector<UpdatedTensor> updates;
  StorageId loss;  // invalid in a cost graph
  // Leaves that are no parameters, and their .grad: the loop's variable of the loss keeps them.
  std::vector<StorageId> leaves;
  // Tensors that turns of a step share, by their names.
  std::vector<std::pair<std::string, StorageId>> named;
  // Modules keep these as attributes from one forward pass to the next, which replaces them.
  std::vector<StorageId> module_state;
  int blocks = 0;
  // Variables of the framework's code and of the training loop live until their frame returns.
  bool has_frames = false;
  // torch.compile has traced the step or its blocks: what no kernel reads is not kept.
  bool compiled = false;
  Bytes checkpoint_random_state;        // device bytes per checkpointed segment
  bool checkpoint_stops_early = false;  // see FrameworkRules
  std::int64_t samples = 0;             // samples per micro-batch
  bool fixes_samples = false;           // see Graph
  std::int64_t tokens = 0;
  std::size_t tensors = 0;  // number of tensors of the forward graph

  // Lists of operators that a schedule (analysis/schedule.hpp) puts in order.
  StepParts parts;
  int micro_batches = 1;
  // Turns of a step, each with a loss and an optimizer of its own, as the discriminator's and the
  // generator's of a GAN. The parts of turn i are those of chunk i, all kinds of them.
  int turns = 1;
  // zero_grad keeps gradients and fills them with zeros, so only step 0 finds none.
  bool gradients_persist = false;
  // Each tensor is updated in backward, as soon as its gradient is complete, and the gradient goes.
  bool updates_in_backward = false;
  // Steps from the first one on that leave the optimizer out: a dynamic loss scale has overflowed.
  int skipped_updates = 0;

  [[nodiscard]] std::vector<OperatorId>& part(PartKind kind, std::uint16_t chunk = 0) {
    return parts.of(kind, chunk);
  }
  [[nodiscard]] const std::vector<OperatorId>& part(PartKind kind, std::uint16_t chunk = 0) const {
    return parts.of(kind, chunk);
  }
  [[nodiscard]] std::span<const Touch> touches_of(OperatorId id) const {
    const Operator& op = operators[id];
    return std::span(touches).subspan(op.first_touch, op.touch_count);
  }
  // Appends an operator that makes `op_touches`; a storage named twice keeps its strongest access.
  OperatorId add_operator(Operator op, std::span<const Touch> op_touches);
  [[nodiscard]] std::string_view layer_name(LayerId id) const {
    return id.valid() ? std::string_view(layers[id].name) : std::string_view();
  }
  // Returns the repeated block that a layer lies in, kNoBlock for none.
  [[nodiscard]] int block_of(LayerId id) const { return id.valid() ? layers[id].block : kNoBlock; }
  [[nodiscard]] int block_of(OperatorId id) const { return block_of(operators[id].layer); }
  // Returns "h.3.attn: linear.weight_gradient".
  [[nodiscard]] std::string describe(OperatorId id) const;
  // Sums the floating-point operations of those of the operators that compute the model.
  [[nodiscard]] Flops model_flops_of(std::span<const OperatorId> ids) const;
};

// Whether it changes persistent memory: it runs exactly once per step and micro-batch and is never
// recomputed.
[[nodiscard]] bool writes_persistent(const TrainingGraph& graph, OperatorId id);

// Returns the parameter as the optimizer updates it whole.
[[nodiscard]] UpdatedTensor whole_update(const TrainingGraph& graph, ParameterId id);

// Throws InternalError on dangling ids, reads of storages that nothing has created, and operators
// that create initial storages.
void check_invariants(const TrainingGraph& graph);

}  // namespace tidemark
