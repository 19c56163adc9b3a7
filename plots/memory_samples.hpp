// Thins the timeline to as many samples as a chart has columns.
#pragma once

#include <vector>

#include "sim/result/timeline.hpp"

namespace tidemark {

// The state that one column of a chart shows.
struct MemorySample {
  Duration time{};  // time at which `live` was reached
  std::uint32_t instruction = kNoInstruction;
  BytesByRole by_role{};  // sums to `live`
  Bytes live;             // most bytes live at any moment of the column
  Bytes reserved;         // most bytes reserved at any moment of it
};

// Cuts [begin, end] into `columns` equal parts. Of all states of a part, also those that last no
// time at all, the one with the most live bytes is kept: the peak is always among the samples.
[[nodiscard]] std::vector<MemorySample> thin_out(const StepProgram& program,
                                                 const MemoryTimeline& timeline, Duration begin,
                                                 Duration end, std::size_t columns);

// Returns for each part the phase in which most of its compute time falls; a part without work
// shows that of the part before.
[[nodiscard]] std::vector<Phase> phases_of(const StepProgram& program, const Scratch& scratch,
                                           Duration begin, Duration end, std::size_t columns);

}  // namespace tidemark
