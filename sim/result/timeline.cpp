#include "sim/result/timeline.hpp"

#include <algorithm>

namespace tidemark {
namespace {

// Start of the next kernel and end of the last one, by instruction.
struct DeviceTimes {
  std::vector<std::int64_t> next_start;
  std::vector<std::int64_t> last_end;

  DeviceTimes(const StepProgram& program, const Scratch& scratch)
      : next_start(program.size() + 1), last_end(program.size() + 1) {
    const auto on_compute = [&](std::size_t i) {
      return program.opcode[i] == Opcode::kLaunch && scratch.started[i] >= 0 &&
             program.stream[i] == static_cast<std::uint8_t>(Stream::kCompute);
    };
    std::int64_t end = 0;
    for (std::size_t i = 0; i < program.size(); ++i) {
      if (on_compute(i)) end = std::max(end, scratch.finished[i]);
      last_end[i] = end;
    }
    last_end[program.size()] = end;
    std::int64_t start = end;
    next_start[program.size()] = end;
    for (std::size_t i = program.size(); i-- > 0;) {
      if (on_compute(i)) start = scratch.started[i];
      next_start[i] = start;
    }
  }
};

}  // namespace

MemoryTimeline memory_timeline(const StepProgram& program, const Scratch& scratch) {
  const DeviceTimes times(program, scratch);
  MemoryTimeline timeline;
  timeline.points.reserve(scratch.events.size());
  std::int64_t live = 0;
  std::int64_t now = 0;
  bool in_last_step = false;
  for (const MemoryEvent& event : scratch.events) {
    const Block& block = program.blocks[event.block];
    if (block.tier != Tier::kDevice) continue;
    live += event.sign * block.bytes.count;
    const std::size_t i = std::min<std::size_t>(event.instruction, program.size());
    now = std::max(now, event.sign > 0 ? times.next_start[i] : times.last_end[i]);
    if (!in_last_step && i < program.size() &&
        program.slot[program.position[i].index()].last_step) {
      in_last_step = true;
      timeline.last_step_begin = Duration(now);
    }
    timeline.points.push_back({.time = Duration(now),
                               .instruction = event.instruction,
                               .block = event.block,
                               .sign = event.sign,
                               .live = live,
                               .active = event.active,
                               .reserved = event.reserved});
  }
  timeline.end = Duration(std::max(now, times.last_end[program.size()]));
  return timeline;
}

std::vector<BlockId> live_blocks(const StepProgram& program, const Scratch& scratch,
                                 const Peak& peak) {
  IdVector<BlockId, char> live(program.blocks.size(), 0);
  for (std::size_t e = 0; e < std::min(peak.events, scratch.events.size()); ++e) {
    const MemoryEvent& event = scratch.events[e];
    if (event.sign != 0) live[event.block] = event.sign > 0 ? 1 : 0;
  }
  std::vector<BlockId> blocks;
  for (BlockId id : ids_of(program.blocks)) {
    if (live[id] != 0 && program.blocks[id].tier == Tier::kDevice) blocks.push_back(id);
  }
  std::stable_sort(blocks.begin(), blocks.end(), [&](BlockId a, BlockId b) {
    return program.blocks[a].bytes > program.blocks[b].bytes;
  });
  return blocks;
}

std::vector<StepReserved> reserved_by_step(const StepProgram& program, const ProgramOrder& order,
                                           const Scratch& scratch) {
  std::vector<StepReserved> steps;
  for (const MemoryEvent& event : scratch.events) {
    // Restores of evicted blocks may come after the program's last instruction.
    const std::size_t i = std::min<std::size_t>(event.instruction, program.size() - 1);
    const auto step = static_cast<std::size_t>(order.at[program.position[i]].step);
    if (step >= steps.size()) {
      const StepReserved before = steps.empty() ? StepReserved() : steps.back();
      steps.resize(step + 1, {.peak = before.end, .end = before.end});
    }
    steps[step].end = event.reserved;
    steps[step].peak = std::max(steps[step].peak, event.reserved);
  }
  return steps;
}

std::optional<int> converged_step(const std::vector<StepReserved>& steps) {
  if (steps.size() < 2) return std::nullopt;
  std::size_t first = steps.size() - 1;
  while (first > 0 && steps[first - 1] == steps.back())
    --first;
  if (first + 1 == steps.size()) return std::nullopt;
  return static_cast<int>(first);
}

BytesByRole bytes_by_role(const StepProgram& program, const std::vector<BlockId>& blocks) {
  BytesByRole sums{};
  for (BlockId id : blocks) {
    sums[static_cast<std::size_t>(program.blocks[id].role)] += program.blocks[id].bytes.count;
  }
  return sums;
}

}  // namespace tidemark
