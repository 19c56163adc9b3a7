// Proves at run time that eviction restores the content that was there before.
//
// A recomputation may read what another allocation of the same storage holds by now, as of a
// parameter that has been gathered again.
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
  // Returns the content that an allocation has in a run without eviction.
  [[nodiscard]] std::uint64_t expected(AllocationId allocation) const {
    return expected_[allocation.index()];
  }

 private:
  static constexpr std::uint64_t kNothing = 0;

  [[nodiscard]] std::uint64_t read(std::uint32_t instruction,
                                   const std::vector<std::uint64_t>& contents) const;
  [[nodiscard]] std::uint64_t content_of(AllocationId allocation) const;
  [[noreturn]] void fail(std::uint32_t instruction, AllocationId allocation,
                         const char* what) const;

  const StepProgram& program_;
  std::vector<std::uint64_t> expected_;  // expected content of each allocation
  std::vector<std::uint64_t> held_;
  IdVector<StorageId, AllocationId> latest_;  // the allocation that was written last of each
};

}  // namespace tidemark
