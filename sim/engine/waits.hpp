// Attribution of the compute stream's waits to the work that caused them.
#pragma once

#include <algorithm>
#include <cstdint>

#include "sim/engine/scratch.hpp"

namespace tidemark {

// Returns the instruction that ended latest among those that `at` waited for: its edges and, in
// order, its stream.
inline std::uint32_t last_cause(const StepProgram& program, const Scratch& scratch,
                                std::uint32_t at, std::uint32_t before) {
  std::uint32_t cause = before;
  for (std::uint32_t edge : program.edges_of(at)) {
    if (cause == kNoInstruction || scratch.finished[edge] > scratch.finished[cause]) cause = edge;
  }
  return cause;
}

// Walks backwards from `until`, for which `cause` was responsible: what that one waited for until
// it started, and so on. Calls lost(instruction, nanoseconds) for each stretch; they add up to
// until - from.
//
//   compute  ...|      waits      |
//   host            [ update ]             lost(update, 10)
//   h2d                       [copy]       lost(copy, 6)
template <class Lost>
void trace_back(const StepProgram& program, const Scratch& scratch, std::uint32_t cause,
                std::int64_t from, std::int64_t until, Lost&& lost) {
  while (until > from) {
    const std::int64_t began = std::max(from, scratch.started[cause]);
    if (began < until) lost(cause, until - began);
    until = std::min(until, began);
    const std::uint32_t at = cause;
    cause = last_cause(program, scratch, at, scratch.previous[at]);
    // Between the cause's end and this start the instruction was not issued yet: the loss is its
    // own.
    const std::int64_t ended =
        cause == kNoInstruction ? from : std::max(from, scratch.finished[cause]);
    if (ended < until) lost(at, until - ended);
    until = std::min(until, ended);
  }
}

// Traces back why instruction `i` of the compute stream started only at `now`, although the stream
// was free and the instruction issued from `from` on.
template <class Lost>
void trace_wait(const StepProgram& program, const Scratch& scratch, std::uint32_t i,
                std::int64_t from, std::int64_t now, Lost&& lost) {
  const std::uint32_t cause = last_cause(program, scratch, i, kNoInstruction);
  if (cause != kNoInstruction) trace_back(program, scratch, cause, from, now, lost);
}

}  // namespace tidemark
