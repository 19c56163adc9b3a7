// Which blocks may be dropped when memory runs out, and how they come back.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/program/step_program.hpp"

namespace tidemark {

// Facts about a program that eviction needs; computed once per program.
//
// A block may be evicted when running its launch again gives the same content until the block's
// last use: it was written once, and everything its recipe reads, back to memory that exists from
// the start, is not overwritten before then. Blocks that copies touch stay.
struct EvictionFacts {
  std::vector<std::uint32_t> producer;  // by block: the launch that writes it
  std::vector<std::uint32_t> last_use;  // by block: the last launch that touches it
  std::vector<char> evictable;          // by block
  std::vector<char> restorable;         // by block: can be made again while something needs it
};

[[nodiscard]] EvictionFacts eviction_facts(const StepProgram& program);

}  // namespace tidemark
