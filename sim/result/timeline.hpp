// Memory over true time: what was live when, by role and by layer.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "graph/core/units.hpp"
#include "sim/engine/engine.hpp"
#include "sim/program/step_program.hpp"

namespace tidemark {

// State after one change of device memory. Allocations are placed at the start of the kernel they
// are made for, frees at the end of the kernel they follow: the times at which a stream-ordered
// device sees them, not the host's, which runs ahead.
struct TimelinePoint {
  Duration time{};
  std::uint32_t instruction = 0;
  BlockId block;
  std::int32_t sign = 0;    // +1 allocated, -1 freed, 0 returned after its stream events
  std::int64_t live = 0;    // requested bytes on the device
  std::int64_t active = 0;  // as the allocator rounds
  std::int64_t reserved = 0;
};

struct MemoryTimeline {
  std::vector<TimelinePoint> points;  // of all steps, in issue order; times never decrease
  Duration last_step_begin{};
  Duration end{};
};

// From the events of a run (RunOptions::record_events). Device memory only.
[[nodiscard]] MemoryTimeline memory_timeline(const StepProgram& program, const Scratch& scratch);

// Blocks that are live at a peak, largest first.
[[nodiscard]] std::vector<BlockId> live_blocks(const StepProgram& program, const Scratch& scratch,
                                               const Peak& peak);

using BytesByRole = std::array<std::int64_t, kRoles>;
[[nodiscard]] BytesByRole bytes_by_role(const StepProgram& program,
                                        const std::vector<BlockId>& blocks);

}  // namespace tidemark
