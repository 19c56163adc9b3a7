#include "sim/engine/eviction.hpp"

#include <algorithm>

namespace tidemark {
namespace eviction_detail {
namespace {

constexpr std::uint32_t kNever = Id<void>::kNone;

bool runs_on_compute(const StepProgram& program, std::uint32_t i) {
  return program.opcode[i] == Opcode::kLaunch &&
         program.stream[i] == static_cast<std::uint8_t>(Stream::kCompute);
}

class FactFinder {
 public:
  FactFinder(const StepProgram& program, EvictionFacts& facts)
      : program_(program),
        facts_(facts),
        writes_(program.allocations.size()),
        last_use_(program.allocations.size(), 0),
        valid_until_(program.allocations.size(), kNever),
        elsewhere_(program.allocations.size(), 0),
        freed_(program.allocations.size(), 0) {}

  void run() {
    index_uses();
    for (std::uint32_t i = 0; i < program_.size(); ++i) {
      if (runs_on_compute(program_, i)) judge(i);
    }
  }

 private:
  void index_uses() {
    for (std::uint32_t i = 0; i < program_.size(); ++i) {
      if (program_.opcode[i] == Opcode::kFree) freed_[program_.subject[i]] = 1;
      const bool on_compute = runs_on_compute(program_, i);
      for (AllocationUse use : program_.uses_of(i)) {
        const std::size_t b = use.allocation().index();
        last_use_[b] = i;
        if (!on_compute) elsewhere_[b] = 1;
        if (use.access() == Access::kRead) continue;
        writes_[b].push_back(i);
        if (facts_.producer[b] == kNever && on_compute) facts_.producer[b] = i;
      }
    }
  }

  // Returns the instruction from which on an input of `launch` is neither resident nor
  // recomputable.
  [[nodiscard]] std::uint32_t input_valid_until(std::size_t b, std::uint32_t launch) const {
    if (facts_.restorable[b] != 0) return valid_until_[b];
    // Only memory that is never freed can be counted on; it must not change.
    const Role role = program_.allocations[AllocationId(b)].role;
    const bool stays = is_parameter(role) || role == Role::kBuffer || role == Role::kInput ||
                       role == Role::kTeacher;
    if (!stays || freed_[b] != 0) return 0;
    const auto next = std::upper_bound(writes_[b].begin(), writes_[b].end(), launch);
    return next == writes_[b].end() ? kNever : *next;
  }

  void judge(std::uint32_t launch) {
    std::uint32_t valid = kNever;
    for (AllocationUse use : program_.uses_of(launch)) {
      const std::size_t b = use.allocation().index();
      switch (use.access()) {
        case Access::kRead:
          valid = std::min(valid, input_valid_until(b, launch));
          break;
        case Access::kCreate:
          if (writes_[b].size() != 1 || elsewhere_[b] != 0) return;
          break;
        default:
          return;
      }
    }
    if (valid <= launch) return;
    for (AllocationUse use : program_.uses_of(launch)) {
      const Allocation& allocation = program_.allocations[use.allocation()];
      const bool temporary =
          allocation.storage.valid() &&
          (allocation.role == Role::kSavedActivation || allocation.role == Role::kTemporary ||
           allocation.role == Role::kActivationGradient);
      if (use.access() != Access::kCreate || !temporary) continue;
      const std::size_t b = use.allocation().index();
      facts_.restorable[b] = 1;
      valid_until_[b] = valid;
      facts_.evictable[b] = last_use_[b] < valid ? 1 : 0;
      for (AllocationUse input : program_.uses_of(launch)) {
        if (input.access() == Access::kRead && facts_.restorable[input.allocation().index()] != 0) {
          facts_.recipes.push_back({launch, input.allocation(), use.allocation()});
        }
      }
    }
  }

  const StepProgram& program_;
  EvictionFacts& facts_;
  // by allocation: the launches and copies that write it
  std::vector<std::vector<std::uint32_t>> writes_;
  std::vector<std::uint32_t> last_use_;
  // by launch: from this instruction on its recipe gives another content
  std::vector<std::uint32_t> valid_until_;
  std::vector<char> elsewhere_;  // touched by a copy or another stream
  std::vector<char> freed_;
};

EvictionFacts facts_without_costs(const StepProgram& program) {
  const std::size_t allocations = program.allocations.size();
  EvictionFacts facts{.producer = std::vector<std::uint32_t>(allocations, kNever),
                      .evictable = std::vector<char>(allocations, 0),
                      .restorable = std::vector<char>(allocations, 0),
                      .cost = std::vector<Duration>(allocations),
                      .recipes = {},
                      .next_launch = std::vector<std::uint32_t>(program.size(), kNever)};
  FactFinder(program, facts).run();
  return facts;
}

}  // namespace
}  // namespace eviction_detail

std::vector<std::uint32_t> producers(const StepProgram& program) {
  return eviction_detail::facts_without_costs(program).producer;
}

EvictionFacts eviction_facts(const StepProgram& program, const CostTable& costs) {
  const std::size_t allocations = program.allocations.size();
  EvictionFacts facts = eviction_detail::facts_without_costs(program);
  for (std::size_t b = 0; b < allocations; ++b) {
    if (facts.producer[b] == eviction_detail::kNever) continue;
    facts.cost[b] = costs.device[OperatorId(program.subject[facts.producer[b]])];
  }
  std::uint32_t next = eviction_detail::kNever;
  for (std::size_t i = program.size(); i-- > 0;) {
    if (program.opcode[i] == Opcode::kLaunch) next = static_cast<std::uint32_t>(i);
    facts.next_launch[i] = next;
    if (eviction_detail::runs_on_compute(program, static_cast<std::uint32_t>(i))) {
      facts.compute += costs.device[OperatorId(program.subject[i])];
    }
  }
  return facts;
}

}  // namespace tidemark
