#include "sim/program/live_peak.hpp"

#include <algorithm>

namespace tidemark {

Bytes live_change(const StepProgram& program, std::size_t instruction) {
  const Opcode opcode = program.opcode[instruction];
  if (opcode != Opcode::kAllocate && opcode != Opcode::kFree) return Bytes(0);
  const Allocation& allocation = program.allocations[AllocationId(program.subject[instruction])];
  if (allocation.tier != Tier::kDevice) return Bytes(0);
  return opcode == Opcode::kFree ? -allocation.bytes : allocation.bytes;
}

Bytes live_peak(const StepProgram& program) {
  Bytes live;
  Bytes most;
  for (std::size_t i = 0; i < program.size(); ++i) {
    live += live_change(program, i);
    most = std::max(most, live);
  }
  return most;
}

}  // namespace tidemark
