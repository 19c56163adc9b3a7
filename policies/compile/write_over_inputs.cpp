#include "policies/compile/write_over_inputs.hpp"

#include <algorithm>
#include <vector>

namespace tidemark {
namespace write_over_inputs_detail {
namespace {

constexpr PartKind kCompiledParts[] = {PartKind::kForward, PartKind::kBackward};

class Reuse {
 public:
  Reuse(TrainingGraph& graph, CompileScope scope, const IdVector<OperatorId, char>& moves)
      : graph_(graph), scope_(scope), moves_(moves), uses_(graph.storages.size()) {
    memory_.reserve(graph.storages.size());
    for (const StorageId id : ids_of(graph.storages))
      memory_.push_back(id);
  }
  void run();

 private:
  // The facts about one storage by which its memory may be taken over.
  struct Uses {
    OperatorId maker;
    OperatorId last;
    int makers = 0;
    bool kept = false;  // something else than these operators has it
  };

  void find_uses();
  void find_keepers();
  void rewrite(OperatorId kernel);
  [[nodiscard]] bool is_own(const Storage& storage) const {
    return !storage.persistent && storage.home == Tier::kDevice &&
           (storage.role == Role::kSavedActivation || storage.role == Role::kActivationGradient ||
            storage.role == Role::kTemporary);
  }
  [[nodiscard]] bool can_take(OperatorId kernel, StorageId input, StorageId result) const;

  TrainingGraph& graph_;
  const CompileScope scope_;
  const IdVector<OperatorId, char>& moves_;
  IdVector<StorageId, Uses> uses_;
  IdVector<StorageId, StorageId> memory_;  // the storage whose memory has the content
};

void Reuse::find_uses() {
  for (const PartKind kind : kCompiledParts) {
    for (const OperatorId op : graph_.part(kind)) {
      for (const Touch& touch : graph_.touches_of(op)) {
        Uses& uses = uses_[touch.storage];
        uses.last = op;
        if (touch.access != Access::kCreate) continue;
        uses.maker = op;
        ++uses.makers;
      }
    }
  }
}

void Reuse::find_keepers() {
  for (const StepPart& part : graph_.parts.all()) {
    if (part.chunk == 0 && std::find(std::begin(kCompiledParts), std::end(kCompiledParts),
                                     part.kind) != std::end(kCompiledParts))
      continue;
    for (const OperatorId op : part.operators) {
      for (const Touch& touch : graph_.touches_of(op))
        uses_[touch.storage].kept = true;
    }
  }
  for (const Hold& hold : graph_.holds) {
    const OperatorId last = uses_[hold.storage].last;
    // A variable of forward is gone in backward.
    const bool gone = graph_.operators[hold.until].phase == Phase::kForward && last.valid() &&
                      graph_.operators[last].phase == Phase::kBackward;
    if (!gone) uses_[hold.storage].kept = true;
  }
  for (const StorageId id : graph_.module_state)
    uses_[id].kept = true;
  for (const StorageId id : graph_.leaves)
    uses_[id].kept = true;
  for (const auto& [name, id] : graph_.named)
    uses_[id].kept = true;
  if (graph_.loss.valid()) uses_[graph_.loss].kept = true;
}

bool Reuse::can_take(OperatorId kernel, StorageId input, StorageId result) const {
  const Storage& from = graph_.storages[input];
  const Storage& to = graph_.storages[result];
  if (!is_own(from) || !is_own(to) || from.bytes != to.bytes || from.dtype != to.dtype)
    return false;
  const Uses& before = uses_[input];
  const Uses& after = uses_[result];
  if (before.makers != 1 || before.kept || before.last != kernel) return false;
  if (after.makers != 1 || after.kept) return false;
  // A tensor of another compiled function, of its forward or of eager code is an input of this one.
  return graph_.operators[before.maker].phase == graph_.operators[kernel].phase &&
         is_compiled(graph_, before.maker, scope_) &&
         (scope_ == CompileScope::kModel ||
          graph_.block_of(before.maker) == graph_.block_of(kernel));
}

void Reuse::rewrite(OperatorId kernel) {
  Operator& op = graph_.operators[kernel];
  const bool may_reuse = is_fusible(graph_, kernel, scope_) && moves_[kernel] == 0;
  const auto begin = graph_.touches.begin() + op.first_touch;
  for (std::uint32_t i = 0; i < op.touch_count; ++i)
    begin[i].storage = memory_[begin[i].storage];
  for (std::uint32_t out = 0; may_reuse && out < op.touch_count;) {
    const auto end = begin + op.touch_count;
    const Touch made = begin[out];
    const auto input = std::find_if(begin, end, [&](const Touch& touch) {
      return made.access == Access::kCreate && touch.access == Access::kRead &&
             can_take(kernel, touch.storage, made.storage);
    });
    if (input == end) {
      ++out;
      continue;
    }
    input->access = Access::kMutate;
    memory_[made.storage] = input->storage;
    uses_[input->storage].last = uses_[made.storage].last;
    std::rotate(begin + out, begin + out + 1, end);
    --op.touch_count;
  }
}

void Reuse::run() {
  find_uses();
  find_keepers();
  for (const PartKind kind : kCompiledParts) {
    for (const OperatorId op : graph_.part(kind))
      rewrite(op);
  }
  for (Hold& hold : graph_.holds)
    hold.storage = memory_[hold.storage];
}

}  // namespace
}  // namespace write_over_inputs_detail

void write_over_inputs(TrainingGraph& graph, CompileScope scope,
                       const IdVector<OperatorId, char>& moves) {
  write_over_inputs_detail::Reuse(graph, scope, moves).run();
}

}  // namespace tidemark
