#include "policies/compile/compiled_step.hpp"

#include <utility>
#include <vector>

#include "policies/compile/fuse.hpp"
#include "policies/compile/partition.hpp"

namespace tidemark {
namespace compiled_step_detail {
namespace {

// Puts the operators that compute values again before their first reader in backward.
class Recomputation {
 public:
  Recomputation(TrainingGraph& graph, CompileScope scope)
      : graph_(graph),
        again_(recomputed_values(graph, scope)),
        maker_(graph.storages.size()),
        copy_(graph.storages.size()) {}
  void run();

 private:
  void make(StorageId value);
  [[nodiscard]] StorageId content_of(StorageId value) {
    if (again_[value] == 0) return value;
    if (!copy_[value].valid()) make(value);
    return copy_[value];
  }

  TrainingGraph& graph_;
  IdVector<StorageId, char> again_;
  IdVector<StorageId, OperatorId> maker_;
  IdVector<StorageId, StorageId> copy_;
  std::vector<OperatorId> backward_;
};

void Recomputation::make(StorageId value) {
  const OperatorId maker = maker_[value];
  std::vector<Touch> touches;
  Operator op = graph_.operators[maker];
  op.work.read = op.work.written = {};
  const std::vector<Touch> of_maker(graph_.touches_of(maker).begin(),
                                    graph_.touches_of(maker).end());
  for (const Touch& touch : of_maker) {
    const bool made = touch.access == Access::kCreate;
    if (made && again_[touch.storage] != 0 && touch.storage != value) continue;
    // Statistics that forward has saved are not recomputed.
    StorageId content = made ? touch.storage : content_of(touch.storage);
    if (touch.storage == value) {
      Storage copy = graph_.storages[value];
      copy.role = Role::kActivationGradient;
      content = copy_[value] = graph_.storages.push_back(std::move(copy));
      again_.push_back(0);
      maker_.push_back({});
      copy_.push_back({});
    }
    const Access access = touch.storage == value ? Access::kCreate : Access::kRead;
    (access == Access::kCreate ? op.work.written : op.work.read) += graph_.storages[content].bytes;
    touches.push_back({content, access});
  }
  op.name = "recompute." + op.name;
  op.part = OperatorPart::kBackward;
  op.phase = Phase::kBackward;
  op.workspace = {};
  backward_.push_back(graph_.add_operator(std::move(op), touches));
}

void Recomputation::run() {
  for (const OperatorId op : graph_.part(PartKind::kForward)) {
    for (const Touch& touch : graph_.touches_of(op)) {
      if (touch.access == Access::kCreate) maker_[touch.storage] = op;
    }
  }
  const std::vector<OperatorId> backward = graph_.part(PartKind::kBackward);
  for (const OperatorId op : backward) {
    for (std::uint32_t i = 0; i < graph_.operators[op].touch_count; ++i) {
      const std::uint32_t at = graph_.operators[op].first_touch + i;
      const StorageId content = content_of(graph_.touches[at].storage);
      graph_.touches[at].storage = content;
    }
    backward_.push_back(op);
  }
  graph_.part(PartKind::kBackward) = std::move(backward_);
}

}  // namespace
}  // namespace compiled_step_detail

void CompiledStep::apply(TrainingGraph& graph, const RewriteContext& /*context*/) const {
  if (!graph.part(PartKind::kBackward).empty())
    compiled_step_detail::Recomputation(graph, scope_).run();
  fuse_operators(graph, scope_);
  graph.compiled = true;
}

}  // namespace tidemark
