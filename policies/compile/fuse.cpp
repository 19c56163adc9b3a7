#include "policies/compile/fuse.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "graph/operators/known_families.hpp"
#include "policies/compile/write_over_inputs.hpp"

namespace tidemark {
namespace fuse_detail {
namespace {

// Two kernels that share less are not fused (torch/_inductor/config.py,
// score_fusion_memory_threshold).
constexpr Bytes kLeastShared(10);

class Fusion {
 public:
  Fusion(TrainingGraph& graph, CompileScope scope)
      : graph_(graph),
        scope_(scope),
        inside_(graph.storages.size(), 0),
        became_(graph.operators.size()),
        moves_(graph.operators.size(), 0) {}
  void run();

 private:
  using Group = std::vector<OperatorId>;  // operators of one kernel

  void count_uses();
  [[nodiscard]] bool share(OperatorId a, OperatorId b) const;
  [[nodiscard]] bool depend(OperatorId a, OperatorId b) const;
  [[nodiscard]] bool can_wait(const std::vector<Group>& groups, std::size_t at) const;
  [[nodiscard]] std::vector<Group> groups_of(const Group& run) const;
  void fuse(PartKind kind, std::uint16_t chunk);
  void join(const std::vector<OperatorId>& run);
  void follow_holds();

  TrainingGraph& graph_;
  const CompileScope scope_;
  IdVector<StorageId, std::size_t> uses_;    // operators that touch the storage in any part
  IdVector<StorageId, char> inside_;         // storages that need no memory any more
  IdVector<OperatorId, OperatorId> became_;  // the kernel that an operator is a part of
  IdVector<OperatorId, char> moves_;         // kernels that put elements in another order
};

// Whether the operator reads an element from another place than it writes it to.
bool moves_elements(const Operator& op) {
  const OperatorFamily* const moving[] = {&contiguous_family(), &reshape_family(), &cat_family(),
                                          &rotary_family()};
  return std::find(std::begin(moving), std::end(moving), op.family) != std::end(moving);
}

void Fusion::count_uses() {
  uses_.resize(graph_.storages.size());
  for (const StepPart& part : graph_.parts.all()) {
    for (const OperatorId op : part.operators) {
      for (const Touch& touch : graph_.touches_of(op))
        ++uses_[touch.storage];
    }
  }
  if (graph_.loss.valid()) ++uses_[graph_.loss];
  for (const StorageId id : graph_.module_state)
    ++uses_[id];
  for (const StorageId id : graph_.leaves)
    ++uses_[id];
}

// Makes the last operator of a run the kernel of all.
void Fusion::join(const std::vector<OperatorId>& run) {
  std::map<StorageId, Access> access;
  std::map<StorageId, std::size_t> touched;
  std::vector<StorageId> order;
  Operator kernel = graph_.operators[run.back()];
  kernel.work = {.op_class = OperatorClass::kElementwise, .dtype = kernel.work.dtype};
  kernel.workspace = {};
  for (const OperatorId id : run) {
    const Operator& op = graph_.operators[id];
    kernel.work.flops += op.work.flops;
    if (op.work.op_class == OperatorClass::kReduction ||
        op.work.op_class == OperatorClass::kNormalization)
      kernel.work.op_class = op.work.op_class;
    for (const Touch& touch : graph_.touches_of(id)) {
      const auto [entry, is_new] = access.try_emplace(touch.storage, touch.access);
      if (is_new) order.push_back(touch.storage);
      entry->second = std::max(entry->second, touch.access);
      ++touched[touch.storage];
    }
    became_[id] = run.back();
    if (moves_[id] != 0) moves_[run.back()] = 1;
  }
  std::vector<Touch> touches;
  for (const StorageId id : order) {
    const Storage& storage = graph_.storages[id];
    const bool made_here = access[id] == Access::kCreate;
    if (made_here && !storage.persistent && touched[id] == uses_[id]) {
      inside_[id] = 1;
      continue;
    }
    touches.push_back({id, access[id]});
    if (access[id] != Access::kCreate) kernel.work.read += storage.bytes;
    if (access[id] != Access::kRead) kernel.work.written += storage.bytes;
  }
  kernel.name = fmt::format("fused.{}_{}", run.size(), kernel.name);
  kernel.first_touch = static_cast<std::uint32_t>(graph_.touches.size());
  kernel.touch_count = static_cast<std::uint32_t>(touches.size());
  graph_.touches.insert(graph_.touches.end(), touches.begin(), touches.end());
  graph_.operators[run.back()] = std::move(kernel);
}

// Whether the operators have so much memory in common that a kernel of both saves reading it.
bool Fusion::share(OperatorId a, OperatorId b) const {
  for (const Touch& one : graph_.touches_of(a)) {
    if (graph_.storages[one.storage].bytes < kLeastShared) continue;
    for (const Touch& other : graph_.touches_of(b)) {
      if (one.storage == other.storage) return true;
    }
  }
  return false;
}

// Whether one of the operators writes what the other touches.
bool Fusion::depend(OperatorId a, OperatorId b) const {
  for (const Touch& one : graph_.touches_of(a)) {
    for (const Touch& other : graph_.touches_of(b)) {
      const bool writes = one.access != Access::kRead || other.access != Access::kRead;
      if (one.storage == other.storage && writes) return true;
    }
  }
  return false;
}

// Whether the kernel of a group may run behind all groups that follow it.
bool Fusion::can_wait(const std::vector<Group>& groups, std::size_t at) const {
  for (std::size_t later = at + 1; later < groups.size(); ++later) {
    for (const OperatorId other : groups[later]) {
      for (const OperatorId member : groups[at]) {
        if (depend(member, other)) return false;
      }
    }
  }
  return true;
}

// Returns the operators of each kernel, in the order of the kernels. An operator joins the groups
// that it shares memory with; their kernel then runs at its place.
std::vector<Fusion::Group> Fusion::groups_of(const Group& run) const {
  std::vector<Group> groups;
  for (const OperatorId op : run) {
    Group joined{op};
    for (std::size_t at = groups.size(); at-- > 0;) {
      const Group& group = groups[at];
      const bool related = std::any_of(group.begin(), group.end(),
                                       [&](OperatorId member) { return share(member, op); });
      if (!related || !can_wait(groups, at)) continue;
      joined.insert(joined.begin(), group.begin(), group.end());
      groups.erase(groups.begin() + static_cast<std::ptrdiff_t>(at));
    }
    groups.push_back(std::move(joined));
  }
  return groups;
}

void Fusion::fuse(PartKind kind, std::uint16_t chunk) {
  std::vector<OperatorId> result;
  Group run;
  const auto close = [&] {
    for (const Group& group : groups_of(run)) {
      if (group.size() > 1) join(group);
      result.push_back(group.back());
    }
    run.clear();
  };
  for (const OperatorId op : graph_.part(kind, chunk)) {
    const bool joins = is_fusible(graph_, op, scope_);
    if (!run.empty() && (!joins || graph_.block_of(op) != graph_.block_of(run.back()))) close();
    if (joins) {
      run.push_back(op);
    } else {
      result.push_back(op);
    }
  }
  close();
  graph_.part(kind, chunk) = std::move(result);
}

// Nothing holds what is not in memory; what autograd and the model's variables held is freed behind
// its last reader, but for the outputs that the caller has.
void Fusion::follow_holds() {
  std::erase_if(graph_.holds, [&](const Hold& hold) {
    if (inside_[hold.storage] != 0) return true;
    if (hold.kind == HoldKind::kSaved && is_compiled(graph_, hold.until, scope_)) return true;
    const bool in_forward = graph_.operators[hold.until].phase == Phase::kForward;
    if (!in_forward || !hold.since.valid() || graph_.block_of(hold.since) == kNoBlock) return false;
    // Between blocks that are compiled one by one the model's own code runs.
    return scope_ == CompileScope::kModel ||
           graph_.block_of(hold.since) == graph_.block_of(hold.until);
  });
  const auto follow = [&](OperatorId& id) {
    if (id.valid() && became_[id].valid()) id = became_[id];
  };
  for (Hold& hold : graph_.holds) {
    follow(hold.since);
    follow(hold.until);
  }
}

void Fusion::run() {
  count_uses();
  for (const OperatorId id : ids_of(graph_.operators))
    moves_[id] = moves_elements(graph_.operators[id]) ? 1 : 0;
  for (const StepPart& part :
       std::vector<StepPart>(graph_.parts.all().begin(), graph_.parts.all().end())) {
    if (part.kind == PartKind::kForward || part.kind == PartKind::kBackward)
      fuse(part.kind, part.chunk);
  }
  follow_holds();
  write_over_inputs(graph_, scope_, moves_);
}

}  // namespace
}  // namespace fuse_detail

void fuse_operators(TrainingGraph& graph, CompileScope scope) {
  fuse_detail::Fusion(graph, scope).run();
}

}  // namespace tidemark
