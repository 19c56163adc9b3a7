#include "sim/program/allocator_calls.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace tidemark {
namespace allocator_calls_detail {
namespace {

constexpr int kNoStep = -1;

// Whether all memory is the device's, and every free returns it at once.
bool is_timeless(const StepProgram& program) {
  for (const Allocation& allocation : program.allocations) {
    if (allocation.tier != Tier::kDevice) return false;
  }
  for (std::size_t i = 0; i < program.size(); ++i) {
    if (program.opcode[i] == Opcode::kFree && program.stream[i] != 0) return false;
  }
  return true;
}

// Finds the calls of a further step: those of the last one, where each allocation that it takes
// over from the step before is replaced by its own that stays for the next.
class FurtherStep {
 public:
  FurtherStep(const StepProgram& program, const AllocatorCalls& calls)
      : program_(program), calls_(calls), made_in_(program.allocations.size(), kNoStep) {}

  std::optional<std::vector<AllocatorCall>> run() {
    const int last = calls_.steps() - 1;
    if (last < 1) return std::nullopt;
    for (int step = 0; step <= last; ++step) {
      for (const AllocatorCall call : calls_.of_step(step)) {
        if (!call.frees()) made_in_[call.allocation()] = step;
      }
    }
    find_left(last);
    std::vector<AllocatorCall> further;
    for (const AllocatorCall call : calls_.of_step(last)) {
      const int made_in = made_in_[call.allocation()];
      if (made_in == last) {
        further.push_back(call);
        continue;
      }
      const std::optional<AllocationId> next =
          made_in == last - 1 ? counterpart(call.allocation()) : std::nullopt;
      if (!next) return std::nullopt;
      further.emplace_back(*next, true, true);
    }
    if (matched_ != left_) return std::nullopt;
    return further;
  }

 private:
  // Finds what the last step leaves in memory, and what it takes over, both in the order in which
  // they were made.
  void find_left(int last) {
    IdVector<AllocationId, char> freed(program_.allocations.size(), 0);
    for (const AllocatorCall call : calls_.of_step(last)) {
      if (call.frees()) freed[call.allocation()] = 1;
    }
    for (const AllocatorCall call : calls_.of_step(last)) {
      if (call.frees() || freed[call.allocation()] != 0) continue;
      by_storage_[program_.allocations[call.allocation()].storage].left.push_back(
          call.allocation());
      ++left_;
    }
    for (const AllocatorCall call : calls_.of_step(last - 1)) {
      if (call.frees() || freed[call.allocation()] == 0) continue;
      by_storage_[program_.allocations[call.allocation()].storage].taken_over.push_back(
          call.allocation());
    }
  }

  std::optional<AllocationId> counterpart(AllocationId taken_over) {
    const Carried& carried = by_storage_[program_.allocations[taken_over].storage];
    if (carried.left.size() != carried.taken_over.size()) return std::nullopt;
    const auto at = std::find(carried.taken_over.begin(), carried.taken_over.end(), taken_over) -
                    carried.taken_over.begin();
    const AllocationId left = carried.left[static_cast<std::size_t>(at)];
    const Allocation& before = program_.allocations[taken_over];
    const Allocation& after = program_.allocations[left];
    if (!before.storage.valid() || before.bytes != after.bytes || before.pool != after.pool)
      return std::nullopt;
    ++matched_;
    return left;
  }

  struct Carried {
    std::vector<AllocationId> left;        // made in the last step, and still there at its end
    std::vector<AllocationId> taken_over;  // made in the step before, freed in the last
  };

  const StepProgram& program_;
  const AllocatorCalls& calls_;
  IdVector<AllocationId, int> made_in_;
  std::map<StorageId, Carried> by_storage_;
  std::size_t left_ = 0;
  std::size_t matched_ = 0;
};

}  // namespace
}  // namespace allocator_calls_detail

std::optional<AllocatorCalls> allocator_calls(const StepProgram& program,
                                              const ProgramOrder& order) {
  if (!allocator_calls_detail::is_timeless(program)) return std::nullopt;
  AllocatorCalls result;
  result.calls.reserve(2 * program.allocate_instructions);
  for (std::size_t i = 0; i < program.size(); ++i) {
    const bool frees = program.opcode[i] == Opcode::kFree;
    if (!frees && program.opcode[i] != Opcode::kAllocate) continue;
    const AllocationId allocation(program.subject[i]);
    if (program.allocations[allocation].bytes == Bytes(0)) continue;
    const std::size_t step = order.at[program.position[i]].step;
    while (result.first.size() <= step)
      result.first.push_back(result.calls.size());
    result.calls.emplace_back(allocation, frees);
  }
  while (result.first.size() <= static_cast<std::size_t>(order.steps))
    result.first.push_back(result.calls.size());
  result.further = allocator_calls_detail::FurtherStep(program, result).run();
  return result;
}

}  // namespace tidemark
