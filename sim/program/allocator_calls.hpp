// The calls that a program makes to the device's allocator, where their order follows from the
// program alone. Any allocator can then be asked what it would do on a device of another size, or
// in further steps, without running the program again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "graph/analysis/program_order.hpp"
#include "sim/program/step_program.hpp"

namespace tidemark {

// An allocation or a free, packed into 32 bits.
class AllocatorCall {
 public:
  AllocatorCall() = default;
  AllocatorCall(AllocationId allocation, bool frees, bool of_step_before = false)
      : packed_((allocation.value << 2U) | (frees ? 1U : 0U) | (of_step_before ? 2U : 0U)) {}
  [[nodiscard]] AllocationId allocation() const { return AllocationId(packed_ >> 2U); }
  [[nodiscard]] bool frees() const { return (packed_ & 1U) != 0; }
  // Only in a further step: the step before has made what is freed here.
  [[nodiscard]] bool of_step_before() const { return (packed_ & 2U) != 0; }

 private:
  std::uint32_t packed_ = 0;
};

// Requests for nothing are left out, as they never reach an allocator.
struct AllocatorCalls {
  std::vector<AllocatorCall> calls;  // calls of the whole program
  std::vector<std::size_t> first;    // index of each step's first call; one more ends the last
  // The calls of each further step, under the names of the last one. None where another step may
  // differ from the last: a program of one step does not show which steps repeat.
  std::optional<std::vector<AllocatorCall>> further;

  [[nodiscard]] int steps() const { return static_cast<int>(first.size()) - 1; }
  [[nodiscard]] std::span<const AllocatorCall> of_step(int step) const {
    const auto s = static_cast<std::size_t>(step);
    return std::span(calls).subspan(first[s], first[s + 1] - first[s]);
  }
};

// Returns the calls; nothing where their order depends on time: where frees wait for other streams,
// or memory lies off the device.
[[nodiscard]] std::optional<AllocatorCalls> allocator_calls(const StepProgram& program,
                                                            const ProgramOrder& order);

}  // namespace tidemark
