// Two programs with the same number are the same program.
#pragma once

#include <cstdint>

#include "sim/program/step_program.hpp"

namespace tidemark::test {

// Every array of a program, mixed into one number.
inline std::uint64_t fingerprint(const StepProgram& program) {
  std::uint64_t hash = 1469598103934665603ULL;
  const auto add = [&](std::uint64_t value) { hash = (hash ^ value) * 1099511628211ULL; };
  for (std::size_t i = 0; i < program.size(); ++i) {
    add(static_cast<std::uint64_t>(program.opcode[i]));
    add(program.stream[i]);
    add(program.subject[i]);
    add(program.position[i].value);
    for (std::uint32_t edge : program.edges_of(i))
      add(edge);
    for (AllocationUse use : program.uses_of(i))
      add(use.allocation().value * 4ULL + static_cast<std::uint64_t>(use.access()));
  }
  for (const Allocation& block : program.allocations) {
    add(static_cast<std::uint64_t>(block.bytes.count));
    add(static_cast<std::uint64_t>(block.tier));
  }
  return hash;
}

}  // namespace tidemark::test
