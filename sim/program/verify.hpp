// Proves a step program correct before it runs, independently of how it was lowered.
//
// Checked: reads of freed or unwritten memory, double allocation, double free, leaks, missing
// happens-before between streams (including memory of the compute pool that another stream takes),
// an allocation freed while a stream may use it, wrong content (every operator reads the symbolic
// content that it reads in the plan-free run) and persistent memory changed exactly once per step
// and micro-batch. Framework lifetimes are not visible here: only ground truth shows those.
#pragma once

#include <string>
#include <vector>

#include "graph/analysis/program_order.hpp"
#include "graph/ir/training_graph.hpp"
#include "sim/program/step_program.hpp"

namespace tidemark {

// Returns the first few problems, in words that name tensor and operator; empty when the program is
// correct. `plain` is the order without policies, `order` the one that was lowered.
[[nodiscard]] std::vector<std::string> verify(const TrainingGraph& graph, const ProgramOrder& plain,
                                              const ProgramOrder& order,
                                              const StepProgram& program);

}  // namespace tidemark
