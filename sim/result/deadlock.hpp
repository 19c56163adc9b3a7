// Explains which ranks wait for each other.
#pragma once

#include <span>
#include <string>

#include "graph/analysis/program_order.hpp"
#include "graph/ir/training_graph.hpp"
#include "sim/engine/run_result.hpp"
#include "sim/program/step_program.hpp"

namespace tidemark {

// The program of a rank and its result.
struct RankProgram {
  const TrainingGraph* graph = nullptr;
  const ProgramOrder* order = nullptr;
  const StepProgram* program = nullptr;
};

// Returns "rank 0 waits in step 1 in 'h.3: receive' for rank 1; rank 1 waits ... for rank 0": one
// clause for each rank that has not ended, in the order of the ranks. Empty if all have.
[[nodiscard]] std::string describe_deadlock(std::span<const RankProgram> ranks,
                                            std::span<const RunResult> results);

}  // namespace tidemark
