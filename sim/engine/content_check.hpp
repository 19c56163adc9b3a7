// Proves at run time that eviction restores the content that was there before.
//
// Every write has a symbolic content: the operator and the contents that it read. `expected` is the
// content in a run without eviction, `held` is what the memory holds: nothing after an allocation
// was dropped, the content of a repeated operator's present inputs after it was restored.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/program/step_program.hpp"

namespace tidemark {

class ContentCheck {
 public:
  explicit ContentCheck(const StepProgram& program);

  // Executes the program's own launch or copy. Throws InternalError when it reads something else
  // than in a run without eviction.
  void execute(std::uint32_t instruction);
  // Executes a launch that is recomputed, which writes all its outputs. Throws InternalError when
  // an output's content differs from the first time.
  void repeat(std::uint32_t launch);
  void lose(AllocationId allocation) { held_[allocation.index()] = kNothing; }

 private:
  static constexpr std::uint64_t kNothing = 0;

  [[nodiscard]] std::uint64_t read(std::uint32_t instruction,
                                   const std::vector<std::uint64_t>& contents) const;
  [[noreturn]] void fail(std::uint32_t instruction, AllocationId allocation,
                         const char* what) const;

  const StepProgram& program_;
  std::vector<std::uint64_t> expected_;  // expected content of each allocation
  std::vector<std::uint64_t> held_;
};

}  // namespace tidemark
