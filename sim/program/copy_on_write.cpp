#include "sim/program/copy_on_write.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace tidemark {
namespace copy_on_write_detail {
namespace {

constexpr auto kCompute = static_cast<std::uint16_t>(Stream::kCompute);

bool changes(AllocationUse use) {
  return use.access() == Access::kMutate || use.access() == Access::kOverwrite;
}

// Returns by allocation whether a change of it makes a new one.
IdVector<AllocationId, char> renewed(const StepProgram& program) {
  IdVector<AllocationId, char> freed(program.allocations.size(), 0);
  IdVector<AllocationId, char> elsewhere(program.allocations.size(), 0);
  IdVector<AllocationId, char> created(program.allocations.size(), 0);
  for (std::size_t i = 0; i < program.size(); ++i) {
    if (program.opcode[i] == Opcode::kFree) freed[AllocationId(program.subject[i])] = 1;
    const bool computes = program.opcode[i] == Opcode::kLaunch && program.stream[i] == kCompute;
    for (AllocationUse use : program.uses_of(i)) {
      if (!computes) elsewhere[use.allocation()] = 1;
      if (use.access() == Access::kCreate) created[use.allocation()] = 1;
      // Memory that no operator of the step has made cannot be recomputed.
      if (changes(use) && created[use.allocation()] == 0) elsewhere[use.allocation()] = 1;
    }
  }
  IdVector<AllocationId, char> result(program.allocations.size(), 0);
  for (AllocationId id : ids_of(program.allocations)) {
    const Allocation& allocation = program.allocations[id];
    const bool value =
        allocation.role == Role::kSavedActivation || allocation.role == Role::kTemporary;
    result[id] = value && allocation.storage.valid() && allocation.tier == Tier::kDevice &&
                         allocation.pool == Stream::kCompute && freed[id] != 0 && elsewhere[id] == 0
                     ? 1
                     : 0;
  }
  return result;
}

class Copier {
 public:
  explicit Copier(const StepProgram& program)
      : program_(program), renews_(renewed(program)), at_(program.size()) {
    result_.allocations = program.allocations;
    result_.matmul_workspace = program.matmul_workspace;
    result_.allocate_instructions = program.allocate_instructions;
    result_.slot = program.slot;
    result_.first_edge.push_back(0);
    result_.first_use.push_back(0);
    current_.reserve(program.allocations.size());
    for (AllocationId id : ids_of(program.allocations))
      current_.push_back(id);
  }

  StepProgram run() {
    for (std::size_t i = 0; i < program_.size(); ++i)
      emit(i);
    result_.messages = program_.messages;
    for (Message& message : result_.messages)
      message.instruction = at_[message.instruction];
    return std::move(result_);
  }

 private:
  void add(Opcode opcode, std::uint16_t stream, std::uint32_t subject, Position position) {
    result_.opcode.push_back(opcode);
    result_.stream.push_back(stream);
    result_.subject.push_back(subject);
    result_.position.push_back(position);
  }
  void close() {
    result_.first_edge.push_back(static_cast<std::uint32_t>(result_.edges.size()));
    result_.first_use.push_back(static_cast<std::uint32_t>(result_.uses.size()));
  }

  // Makes the allocations that an instruction writes to in place of what it would change.
  void renew(std::size_t i) {
    before_.clear();
    for (AllocationUse use : program_.uses_of(i)) {
      const AllocationId changed = use.allocation();
      if (!changes(use) || renews_[changed] == 0 || held_before(changed).valid()) continue;
      const AllocationId made = result_.allocations.push_back(program_.allocations[changed]);
      before_.emplace_back(changed, std::exchange(current_[changed], made));
      add(Opcode::kAllocate, 0, made.value, program_.position[i]);
      close();
      ++result_.allocate_instructions;
    }
  }

  // Returns what held the value before the instruction in hand, where that changes it.
  [[nodiscard]] AllocationId held_before(AllocationId allocation) const {
    const auto held = std::find_if(before_.begin(), before_.end(),
                                   [&](const auto& pair) { return pair.first == allocation; });
    return held == before_.end() ? AllocationId() : held->second;
  }
  [[nodiscard]] AllocationId read_by(AllocationId allocation) const {
    const AllocationId before = held_before(allocation);
    return before.valid() ? before : current_[allocation];
  }

  void emit(std::size_t i) {
    renew(i);
    const Opcode opcode = program_.opcode[i];
    std::uint32_t subject = program_.subject[i];
    // Copies are of allocations that are not renewed.
    if (opcode == Opcode::kFree) subject = current_[AllocationId(subject)].value;
    at_[i] = static_cast<std::uint32_t>(result_.size());
    add(opcode, program_.stream[i], subject, program_.position[i]);
    for (const std::uint32_t edge : program_.edges_of(i))
      result_.edges.push_back(at_[edge]);
    for (AllocationUse use : program_.uses_of(i)) {
      const AllocationId allocation = use.allocation();
      const bool renews = changes(use) && renews_[allocation] != 0;
      if (!renews || use.access() == Access::kMutate) {
        result_.uses.emplace_back(read_by(allocation), renews ? Access::kRead : use.access());
      }
      if (renews) result_.uses.emplace_back(current_[allocation], Access::kCreate);
    }
    close();
    for (const auto& [changed, held] : before_) {
      add(Opcode::kFree, 0, held.value, program_.position[i]);
      close();
    }
  }

  const StepProgram& program_;
  StepProgram result_;
  IdVector<AllocationId, char> renews_;
  std::vector<std::uint32_t> at_;                 // by instruction: its number in the result
  IdVector<AllocationId, AllocationId> current_;  // what holds each allocation's value now
  // what the instruction in hand changes, and what held it before
  std::vector<std::pair<AllocationId, AllocationId>> before_;
};

}  // namespace
}  // namespace copy_on_write_detail

StepProgram copy_on_write(const StepProgram& program) {
  return copy_on_write_detail::Copier(program).run();
}

}  // namespace tidemark
