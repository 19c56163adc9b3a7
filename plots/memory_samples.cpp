#include "plots/memory_samples.hpp"

#include <algorithm>

namespace tidemark {
namespace memory_samples_detail {
namespace {

// Returns the column of a time; the last one includes the end.
std::size_t column_at(std::int64_t time, std::int64_t begin, std::int64_t end,
                      std::size_t columns) {
  if (time <= begin || end <= begin) return 0;
  const double share = static_cast<double>(time - begin) / static_cast<double>(end - begin);
  return std::min(columns - 1, static_cast<std::size_t>(share * static_cast<double>(columns)));
}

}  // namespace
}  // namespace memory_samples_detail

std::vector<MemorySample> thin_out(const StepProgram& program, const MemoryTimeline& timeline,
                                   Duration begin, Duration end, std::size_t columns) {
  std::vector<MemorySample> samples(columns);
  if (columns == 0) return samples;
  MemorySample now;
  std::size_t filled = 0;  // columns that have a state already
  const auto enter = [&](std::size_t column) {
    // Columns without an event, and the beginning of this one, keep the state before it.
    for (; filled <= column; ++filled)
      samples[filled] = now;
  };
  for (const TimelinePoint& point : timeline.points) {
    if (point.time > end) break;
    // Memory of the step before that is freed at the same instant belongs to that step.
    const std::size_t at = std::min<std::size_t>(point.instruction, program.size() - 1);
    const bool before =
        point.time < begin ||
        (point.time == begin && !program.slot[program.position[at].index()].last_step);
    const std::size_t column =
        memory_samples_detail::column_at(point.time.count(), begin.count(), end.count(), columns);
    if (!before) enter(column);
    const Allocation& allocation = program.allocations[point.allocation];
    now.by_role[static_cast<std::size_t>(allocation.role)] += point.sign * allocation.bytes;
    now.time = point.time;
    now.instruction = point.instruction;
    now.live = point.live;
    now.reserved = point.reserved;
    if (before) continue;
    MemorySample& sample = samples[column];
    const Bytes reserved = std::max(sample.reserved, now.reserved);
    if (now.live > sample.live) sample = now;
    sample.reserved = reserved;
  }
  enter(columns - 1);
  return samples;
}

std::vector<Phase> phases_of(const StepProgram& program, const Scratch& scratch, Duration begin,
                             Duration end, std::size_t columns) {
  std::vector<std::array<std::int64_t, kPhases>> busy(columns);
  const std::int64_t from = begin.count();
  const std::int64_t to = end.count();
  for (std::size_t i = 0; i < program.size() && to > from; ++i) {
    const bool compute = program.stream[i] == static_cast<std::uint8_t>(Stream::kCompute);
    if (program.opcode[i] != Opcode::kLaunch || !compute || scratch.started[i] < 0) continue;
    const std::int64_t first = std::max(scratch.started[i], from);
    const std::int64_t last = std::min(std::max(scratch.finished[i], first), to);
    if (last < from || first > to) continue;
    const auto phase = static_cast<std::size_t>(program.slot[program.position[i].index()].phase);
    const std::size_t last_column = memory_samples_detail::column_at(last, from, to, columns);
    for (std::size_t c = memory_samples_detail::column_at(first, from, to, columns);
         c <= last_column; ++c) {
      const double width = static_cast<double>(to - from) / static_cast<double>(columns);
      const double left = static_cast<double>(from) + width * static_cast<double>(c);
      const double overlap = std::min(static_cast<double>(last), left + width) -
                             std::max(static_cast<double>(first), left);
      busy[c][phase] += static_cast<std::int64_t>(std::max(overlap, 0.0));
    }
  }
  std::vector<Phase> phases(columns, Phase::kForward);
  Phase current = Phase::kForward;
  for (std::size_t c = 0; c < columns; ++c) {
    const auto most = std::max_element(busy[c].begin(), busy[c].end());
    if (*most > 0) current = static_cast<Phase>(most - busy[c].begin());
    phases[c] = current;
  }
  return phases;
}

}  // namespace tidemark
