// Memory over true time: what was live when, by role and by layer.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "graph/analysis/program_order.hpp"
#include "graph/core/units.hpp"
#include "sim/engine/engine.hpp"
#include "sim/program/step_program.hpp"

namespace tidemark {

// State after one change of device memory. Allocations are placed at the start of the kernel they
// are made for, frees at the end of the kernel they follow: the times at which a stream-ordered
// device sees them, not the host's, which runs ahead. Evicted allocations come back at the start of
// the launch that recomputes them.
struct TimelinePoint {
  Duration time{};
  std::uint32_t instruction = 0;
  AllocationId allocation;
  std::int32_t sign = 0;  // +1 allocated, -1 freed, 0 returned after its stream events
  Bytes live;             // requested bytes on the device
  Bytes active;           // bytes as the allocator rounds
  Bytes reserved;
};

struct MemoryTimeline {
  std::vector<TimelinePoint> points;  // points of all steps, in issue order; times never decrease
  Duration last_step_begin{};
  Duration end{};  // end of the last work of any stream
};

// Returns device memory over the events of a run (RunOptions::record_events).
[[nodiscard]] MemoryTimeline memory_timeline(const StepProgram& program, const Scratch& scratch);

// Returns the allocations that are live at a peak, largest first.
[[nodiscard]] std::vector<AllocationId> live_allocations(const StepProgram& program,
                                                         const Scratch& scratch, const Peak& peak);

// Bytes that one step takes from the device.
struct StepReserved {
  Bytes peak;
  Bytes end;

  friend bool operator==(const StepReserved&, const StepReserved&) = default;
};
// Returns the figures of each step from the events of a run; steps that it did not reach are left
// out.
[[nodiscard]] std::vector<StepReserved> reserved_by_step(const StepProgram& program,
                                                         const ProgramOrder& order,
                                                         const Scratch& scratch);
// Returns the first step from which on every step reserves the same, peak and end; none where no
// later step is there to show it.
[[nodiscard]] std::optional<int> converged_step(const std::vector<StepReserved>& steps);

using BytesByRole = std::array<Bytes, kRoles>;
[[nodiscard]] BytesByRole bytes_by_role(const StepProgram& program,
                                        const std::vector<AllocationId>& allocations);
[[nodiscard]] Bytes sum_of(const BytesByRole& bytes);

}  // namespace tidemark
