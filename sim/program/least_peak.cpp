#include "sim/program/least_peak.hpp"

#include <algorithm>
#include <cstddef>

namespace tidemark {

Bytes least_peak(const StepProgram& program) {
  Bytes live;
  Bytes most;
  for (std::size_t i = 0; i < program.size(); ++i) {
    const bool frees = program.opcode[i] == Opcode::kFree;
    if (!frees && program.opcode[i] != Opcode::kAllocate) continue;
    const Allocation& allocation = program.allocations[AllocationId(program.subject[i])];
    if (allocation.tier != Tier::kDevice) continue;
    live += frees ? -allocation.bytes : allocation.bytes;
    most = std::max(most, live);
  }
  return most;
}

}  // namespace tidemark
