// The parts of the last step's time: by operator class, and by what each kernel waits for.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "graph/core/units.hpp"
#include "graph/ir/training_graph.hpp"
#include "graph/ir/work.hpp"
#include "sim/engine/cost_table.hpp"
#include "sim/engine/scratch.hpp"
#include "sim/program/step_program.hpp"

namespace tidemark {

// The rate that bounds a kernel's time: a device on which it is higher would be faster.
enum class Bound : std::uint8_t { kCompute, kMemory, kLaunch };
inline constexpr std::size_t kBounds = 3;
[[nodiscard]] constexpr std::string_view name_of(Bound bound) {
  constexpr std::string_view kNames[] = {"compute", "memory", "launch"};
  return kNames[static_cast<int>(bound)];
}

// Returns the bound of an operator by its prices: launch where starting its kernels takes more than
// half of its time, else the longer one of arithmetic and traffic.
[[nodiscard]] Bound bound_of(const CostTable& costs, OperatorId id);

// Kernels of the compute stream, their time and their work.
struct KernelSum {
  std::size_t kernels = 0;  // operators that ran
  std::array<Duration, kBounds> time{};
  Flops flops;
  Bytes bytes;  // compulsory traffic: each operand once

  void add(const Operator& op, Bound bound, Duration duration);
  KernelSum& operator+=(const KernelSum& other);
  [[nodiscard]] Duration total() const { return time[0] + time[1] + time[2]; }
  // Returns the bound with the most time.
  [[nodiscard]] Bound bound() const;
};

struct ClassSum {
  OperatorClass op_class = OperatorClass::kNone;
  KernelSum sum;
};

struct TimeBreakdown {
  std::vector<ClassSum> by_class;  // of the classes that ran
  KernelSum all;
  // Operations of forward and backward, recomputed ones included: those of the optimizer are no
  // work of the model.
  Flops hardware_flops;
};

// Calls visit(OperatorId, const Slot&, Duration) for each kernel of the compute stream in the last
// step, in issue order. The duration is that of the kernel alone, without what eviction restores
// before it.
template <class Visit>
void for_each_kernel(const StepProgram& program, const Scratch& scratch, Visit&& visit) {
  for (std::size_t i = 0; i < program.size(); ++i) {
    const bool compute = program.stream[i] == static_cast<std::uint8_t>(Stream::kCompute);
    if (program.opcode[i] != Opcode::kLaunch || !compute || scratch.finished[i] < 0) continue;
    const Slot& slot = program.slot[program.position[i].index()];
    if (!slot.last_step) continue;
    const std::int64_t restored = scratch.restored.empty() ? 0 : scratch.restored[i];
    visit(OperatorId(program.subject[i]), slot,
          Duration(scratch.finished[i] - scratch.started[i] - restored));
  }
}

[[nodiscard]] TimeBreakdown time_breakdown(const TrainingGraph& graph, const StepProgram& program,
                                           const CostTable& costs, const Scratch& scratch);

}  // namespace tidemark
