#include "sim/program/saved_tensors.hpp"

#include <algorithm>
#include <unordered_set>
#include <utility>

namespace tidemark {
namespace saved_tensors_detail {
namespace {

// Returns the last forward position of the last micro-batch of a turn in the last step.
Position end_of_forward(const TrainingGraph& graph, const ProgramOrder& order, int turn) {
  for (std::uint32_t i = static_cast<std::uint32_t>(order.at.size()); i-- > 0;) {
    const Occurrence& o = order.at[Position(i)];
    if (graph.turns > 1 && o.micro_batch / graph.micro_batches != turn) continue;
    if (!o.recompute && graph.operators[o.op].phase == Phase::kForward &&
        graph.operators[o.op].work.op_class != OperatorClass::kNone) {
      return Position(i);
    }
  }
  return {};
}

// Returns the operator that created the content of a gap's storage. Gaps are sorted by storage,
// then by position.
OperatorId maker_of(const TrainingGraph& graph, const ProgramOrder& order, const Liveness& live,
                    GapId gap) {
  const StorageId storage = live.gaps[gap].storage;
  for (std::uint32_t i = gap.value + 1; i-- > 0 && live.gaps[GapId(i)].storage == storage;) {
    const OperatorId op = order.at[live.gaps[GapId(i)].from].op;
    for (const Touch& touch : graph.touches_of(op)) {
      if (touch.storage == storage && touch.access == Access::kCreate) return op;
    }
  }
  return {};
}

// Parameters, states and gradients are no saved activations, but a gradient that a fused loss has
// made in forward is kept by autograd until backward makes it .grad.
bool is_kept_for_steps(const TrainingGraph& graph, const ProgramOrder& order, const Liveness& live,
                       GapId gap) {
  const Storage& storage = graph.storages[live.gaps[gap].storage];
  if (!storage.initial && !storage.persistent) return false;
  const Operator& from = graph.operators[order.at[live.gaps[gap].from].op];
  return storage.role != Role::kGradient || from.part != OperatorPart::kForward;
}

// What recomputation changes. Saved-tensor hooks hold the operands of what is recomputed in them,
// and take the place of the saved tensors of the nodes that they recompute: autograd itself saves
// neither.
class Hooks {
 public:
  Hooks(const TrainingGraph& graph, const ProgramOrder& order) : graph_(graph), order_(order) {
    for (const Occurrence& o : order.at) {
      const Operator& op = graph.operators[o.op];
      const bool in_hooks = o.in_hooks || op.part == OperatorPart::kRecompute;
      if (in_hooks && op.node.valid()) nodes_.insert(op.node);
      if (o.recompute) recomputed_.insert(o.op);
    }
  }
  // Whether backward reads what a recomputation has made while a module still keeps the first, as
  // it does with the weight that weight_norm makes.
  [[nodiscard]] bool replaces(const Gap& gap, OperatorId maker) const {
    return gap.held_by_variable && recomputed_.contains(maker);
  }
  // Whether autograd's own saved tensors include a value that is touched after a gap.
  [[nodiscard]] bool leave_to_autograd(const Liveness& live,
                                       const IdVector<GapId, Decision>& decisions,
                                       GapId gap) const {
    for (; !live.gaps[gap].dead && live.gaps[gap].to.valid(); gap = GapId(gap.value + 1)) {
      if (std::holds_alternative<Recompute>(decisions[gap])) return false;
      const Occurrence& reader = order_.at[live.gaps[gap].to];
      const Operator& op = graph_.operators[reader.op];
      const bool in_hooks = reader.in_hooks || op.part == OperatorPart::kRecompute;
      if (!in_hooks && (reader.recompute || !nodes_.contains(op.node))) return true;
    }
    return false;
  }

 private:
  const TrainingGraph& graph_;
  const ProgramOrder& order_;
  std::unordered_set<NodeId> nodes_;
  std::unordered_set<OperatorId> recomputed_;
};

// Returns the operators that read a value after a gap, each once.
std::vector<OperatorId> readers_after(const ProgramOrder& order, const Liveness& live, GapId gap) {
  std::vector<OperatorId> readers;
  for (GapId next = gap; !live.gaps[next].dead && live.gaps[next].to.valid();
       next = GapId(next.value + 1)) {
    const OperatorId op = order.at[live.gaps[next].to].op;
    if (std::find(readers.begin(), readers.end(), op) == readers.end()) readers.push_back(op);
  }
  return readers;
}

// Returns what is kept at the position `end` of forward.
std::vector<SavedTensor> saved_at(const TrainingGraph& graph, const ProgramOrder& order,
                                  const Liveness& live, const IdVector<GapId, Decision>& decisions,
                                  const Hooks& hooks, Position end) {
  std::vector<SavedTensor> saved;
  if (!end.valid()) return saved;
  for (GapId id : ids_of(live.gaps)) {
    const Gap& gap = live.gaps[id];
    const Storage& storage = graph.storages[gap.storage];
    if (gap.from > end || is_kept_for_steps(graph, order, live, id)) continue;
    // Ranks keep these, not autograd.
    if (storage.role == Role::kGatheredParameter || storage.role == Role::kCommunication) continue;
    // Other micro-batches in flight have saved tensors of their own.
    if (gap.instance != order.at[end].instance) continue;
    // A variable that backward does not read, such as the loss, is not saved.
    const bool held = gap.dead && gap.release > end && storage.role == Role::kSavedActivation;
    const bool read =
        !gap.dead && gap.to.valid() && gap.to > end && hooks.leave_to_autograd(live, decisions, id);
    if ((!held && !read) || std::holds_alternative<Offload>(decisions[id])) continue;
    const OperatorId maker = maker_of(graph, order, live, id);
    if (hooks.replaces(gap, maker)) continue;
    // Gradients that earlier micro-batches have made wait for those of later ones.
    if (maker.valid() && graph.operators[maker].phase == Phase::kBackward) continue;
    SavedTensor tensor{.storage = gap.storage, .made_by = maker, .needed_by = {}};
    if (held) tensor.needed_by.push_back(order.at[gap.release].op);
    if (read) {
      tensor.by_recomputation = order.at[gap.to].recompute;
      tensor.needed_by = readers_after(order, live, id);
    }
    saved.push_back(std::move(tensor));
  }
  return saved;
}

}  // namespace
}  // namespace saved_tensors_detail

std::vector<SavedTensor> saved_tensors(const TrainingGraph& graph, const ProgramOrder& order,
                                       const Liveness& live,
                                       const IdVector<GapId, Decision>& decisions) {
  const saved_tensors_detail::Hooks hooks(graph, order);
  std::vector<SavedTensor> most;
  for (int turn = 0; turn < graph.turns; ++turn) {
    const Position end = saved_tensors_detail::end_of_forward(graph, order, turn);
    std::vector<SavedTensor> saved =
        saved_tensors_detail::saved_at(graph, order, live, decisions, hooks, end);
    if (turn == 0 || sum_of(graph, saved) > sum_of(graph, most)) most = std::move(saved);
  }
  return most;
}

Bytes sum_of(const TrainingGraph& graph, const std::vector<SavedTensor>& saved) {
  Bytes sum;
  for (const SavedTensor& tensor : saved)
    sum += graph.storages[tensor.storage].bytes;
  return sum;
}

}  // namespace tidemark
