#include "sim/result/timeline.hpp"

#include <algorithm>
#include <numeric>
#include <span>

#include "sim/engine/eviction.hpp"

namespace tidemark {
namespace timeline_detail {
namespace {

// The start of the next kernel and the end of the last one, by instruction.
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

// Under eviction a launch begins with the repetitions that restore evicted allocations:
//
//   started                                                     finished
//   |  repetition  |  repetition  | ... |        the launch        |
//   |<---------- Scratch::restored ---->|
//
// A repetition's allocations are live from its start; memory that is freed in between is freed at
// the end of a repetition.
class RestoreTimes {
 public:
  RestoreTimes(const StepProgram& program, const Scratch& scratch)
      : program_(program), scratch_(scratch) {
    if (scratch.restored.empty()) return;
    producer_ = producers(program);
    launch_.assign(program.size(), kNoInstruction);
    std::uint32_t next = kNoInstruction;
    for (std::size_t i = program.size(); i-- > 0;) {
      if (program.opcode[i] == Opcode::kLaunch) next = static_cast<std::uint32_t>(i);
      launch_[i] = next;
    }
  }

  // Returns the times of the events of one instruction; empty where it repeats nothing.
  std::vector<std::int64_t> of(std::span<const MemoryEvent> events) const {
    // Inputs come back before the outputs of their reader are allocated.
    const std::uint32_t at = events.front().instruction;
    if (producer_.empty() || at >= program_.size()) return {};
    const std::uint32_t i = launch_[at];
    if (i == kNoInstruction || scratch_.started[i] < 0 || scratch_.restored[i] <= 0) return {};
    const bool repeats = std::any_of(events.begin(), events.end(), [&](const MemoryEvent& event) {
      return event.sign > 0 && producer_[event.allocation.index()] != i;
    });
    if (!repeats) return {};
    // First the compute time of the repetitions that have ended, then the scale by the time of the
    // device.
    std::vector<std::int64_t> ended(events.size());
    std::int64_t before = 0;
    std::int64_t running = 0;
    std::uint32_t repeated = kNoInstruction;
    for (std::size_t e = 0; e < events.size(); ++e) {
      const std::uint32_t made_by = maker_at(events, e);
      if (made_by != repeated) {
        before += running;
        running = made_by == kNoInstruction || made_by == i ? 0 : duration(made_by);
        repeated = made_by;
      }
      ended[e] = before;
    }
    const std::int64_t total = std::max<std::int64_t>(before + running, 1);
    const double scale = static_cast<double>(scratch_.restored[i]) / static_cast<double>(total);
    for (std::int64_t& time : ended) {
      time = scratch_.started[i] + static_cast<std::int64_t>(static_cast<double>(time) * scale);
    }
    return ended;
  }

 private:
  // Returns the launch that is repeated at event `e`; for an allocation that is freed while a
  // launch allocates, that launch.
  std::uint32_t maker_at(std::span<const MemoryEvent> events, std::size_t e) const {
    const auto made = [&](std::size_t k) { return producer_[events[k].allocation.index()]; };
    if (events[e].sign > 0) return made(e);
    std::size_t next = e;
    while (next < events.size() && events[next].sign <= 0)
      ++next;
    std::size_t last = e;
    while (last > 0 && events[last].sign <= 0)
      --last;
    const bool within = next < events.size() && events[last].sign > 0 && made(next) == made(last);
    return within ? made(next) : kNoInstruction;
  }

  // Returns the duration of a launch when the program ran it, without repetitions of its own.
  std::int64_t duration(std::uint32_t launch) const {
    if (launch >= program_.size() || scratch_.finished[launch] < 0) return 0;
    return scratch_.finished[launch] - scratch_.started[launch] - scratch_.restored[launch];
  }

  const StepProgram& program_;
  const Scratch& scratch_;
  // by allocation: the launch that writes it; empty without eviction
  std::vector<std::uint32_t> producer_;
  std::vector<std::uint32_t> launch_;  // by instruction: the first launch at or after it
};

}  // namespace
}  // namespace timeline_detail

MemoryTimeline memory_timeline(const StepProgram& program, const Scratch& scratch) {
  const timeline_detail::DeviceTimes times(program, scratch);
  MemoryTimeline timeline;
  timeline.points.reserve(scratch.events.size());
  std::int64_t live = 0;
  std::int64_t now = 0;
  bool in_last_step = false;
  const timeline_detail::RestoreTimes restore_times(program, scratch);
  // Times of the events of an instruction, the first at `first`.
  std::vector<std::int64_t> restored;
  std::size_t first = 0;
  for (std::size_t e = 0; e < scratch.events.size(); ++e) {
    const MemoryEvent& event = scratch.events[e];
    if (e == 0 || event.instruction != scratch.events[first].instruction) {
      first = e;
      std::size_t end = e;
      while (end < scratch.events.size() && scratch.events[end].instruction == event.instruction)
        ++end;
      restored = restore_times.of(std::span(scratch.events).subspan(e, end - e));
    }
    const Allocation& allocation = program.allocations[event.allocation];
    if (allocation.tier != Tier::kDevice) continue;
    live += event.sign * allocation.bytes.count;
    const std::size_t i = std::min<std::size_t>(event.instruction, program.size());
    now = std::max(now, !restored.empty() ? restored[e - first]
                        : event.sign > 0  ? times.next_start[i]
                                          : times.last_end[i]);
    if (!in_last_step && i < program.size() &&
        program.slot[program.position[i].index()].last_step) {
      in_last_step = true;
      timeline.last_step_begin = Duration(now);
    }
    timeline.points.push_back({.time = Duration(now),
                               .instruction = event.instruction,
                               .allocation = event.allocation,
                               .sign = event.sign,
                               .live = Bytes(live),
                               .active = event.active,
                               .reserved = event.reserved});
  }
  // A step may end with work outside the compute stream: the optimizer on the host, a last copy.
  for (const std::int64_t finished : scratch.finished)
    now = std::max(now, finished);
  timeline.end = Duration(now);
  return timeline;
}

std::vector<AllocationId> live_allocations(const StepProgram& program, const Scratch& scratch,
                                           const Peak& peak) {
  IdVector<AllocationId, char> live(program.allocations.size(), 0);
  for (std::size_t e = 0; e < std::min(peak.events, scratch.events.size()); ++e) {
    const MemoryEvent& event = scratch.events[e];
    if (event.sign != 0) live[event.allocation] = event.sign > 0 ? 1 : 0;
  }
  std::vector<AllocationId> allocations;
  for (AllocationId id : ids_of(program.allocations)) {
    if (live[id] != 0 && program.allocations[id].tier == Tier::kDevice) allocations.push_back(id);
  }
  std::stable_sort(allocations.begin(), allocations.end(), [&](AllocationId a, AllocationId b) {
    return program.allocations[a].bytes > program.allocations[b].bytes;
  });
  return allocations;
}

std::vector<StepReserved> reserved_by_step(const StepProgram& program, const ProgramOrder& order,
                                           const Scratch& scratch) {
  std::vector<StepReserved> steps;
  for (const MemoryEvent& event : scratch.events) {
    // Restores of evicted allocations may come after the program's last instruction.
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

BytesByRole bytes_by_role(const StepProgram& program,
                          const std::vector<AllocationId>& allocations) {
  BytesByRole sums{};
  for (AllocationId id : allocations) {
    sums[static_cast<std::size_t>(program.allocations[id].role)] += program.allocations[id].bytes;
  }
  return sums;
}

Bytes sum_of(const BytesByRole& bytes) {
  return std::accumulate(bytes.begin(), bytes.end(), Bytes(0));
}

}  // namespace tidemark
