// The allocations that may be dropped when memory runs out, and the recipes that restore them.
#pragma once

#include <cstdint>
#include <vector>

#include "policies/plan/eviction.hpp"
#include "sim/engine/cost_table.hpp"
#include "sim/program/step_program.hpp"

namespace tidemark {

// Facts about a program that eviction needs; computed once per run.
//
// An allocation may be evicted when repeating its launch gives the same content at each of its
// later uses: it was written once, and everything its recipe reads, back to memory that is there,
// is there and has not been overwritten. A repeated launch writes all its outputs, so none of them
// may have changed since. Only the compute stream may write and read such allocations: those that
// copies and collectives touch stay resident until the program frees them, and what is computed
// from them can be recomputed until then. A gathered parameter is there again when backward has
// gathered it:
//
//   gathered    |--- forward of the unit ---|            |--- its backward ---|
//   computed from it    ^ made                               ^ used, recomputed if it was dropped
struct EvictionFacts {
  std::vector<std::uint32_t> producer;  // by allocation: the launch that writes it
  std::vector<char> evictable;       // by allocation: whether it may be evicted until its last use
  std::vector<char> restorable;      // by allocation: can be recomputed while something needs it
  std::vector<Duration> cost;        // by allocation: duration of the operator that makes it
  std::vector<RecipeInput> recipes;  // edges between restorable allocations, by launch
  std::vector<std::uint32_t> next_launch;  // by instruction: the first launch at or after it
  Duration compute{};                      // duration of all launches of the compute stream
};

// Returns by allocation the launch that writes it, as in EvictionFacts.
[[nodiscard]] std::vector<std::uint32_t> producers(const StepProgram& program);

[[nodiscard]] EvictionFacts eviction_facts(const StepProgram& program, const CostTable& costs);

}  // namespace tidemark
