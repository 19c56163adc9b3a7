// What kept the compute stream waiting.
#pragma once

#include <algorithm>
#include <cstdint>

#include "sim/engine/engine.hpp"

namespace tidemark {

// Walks backwards from compute instruction `i`, which started at `now` although it could have from
// `from` on: the instruction that ended last, what that one waited for until it started, and so on.
// Calls lost(instruction, nanoseconds) for each stretch; they add up to now - from.
//
//   compute  ...|      waits      |
//   host            [ update ]             lost(update, 10)
//   h2d                       [copy]       lost(copy, 6)
template <class Lost>
void trace_wait(const StepProgram& program, const Scratch& scratch, std::uint32_t i,
                std::int64_t from, std::int64_t now, Lost&& lost) {
  std::int64_t until = now;
  std::uint32_t at = i;
  while (until > from) {
    std::uint32_t cause = at == i ? kNoInstruction : scratch.previous[at];
    for (std::uint32_t edge : program.edges_of(at)) {
      if (cause == kNoInstruction || scratch.finished[edge] > scratch.finished[cause]) cause = edge;
    }
    // Between the cause's end and this start the instruction was not issued yet: its own loss.
    const std::int64_t ended =
        cause == kNoInstruction ? from : std::max(from, scratch.finished[cause]);
    if (ended < until && at != i) {
      lost(at, until - ended);
      until = ended;
    }
    if (cause == kNoInstruction) break;
    const std::int64_t began = std::max(from, scratch.started[cause]);
    if (began < until) lost(cause, until - began);
    until = std::min(until, began);
    at = cause;
  }
}

}  // namespace tidemark
