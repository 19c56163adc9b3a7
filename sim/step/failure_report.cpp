#include "sim/step/failure_report.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "sim/result/transfers.hpp"
#include "sim/step/allocation_names.hpp"

namespace tidemark {
namespace failure_report_detail {
namespace {

// Returns the tensors of segments that are neither full nor free, by name.
std::vector<PartlyFreeSegment> named_segments(const AllocationNames& names,
                                              const StepProgram& program,
                                              const std::vector<PartlyUsedSegment>& segments) {
  const auto larger = [&](AllocationId a, AllocationId b) {
    return program.allocations[a].bytes > program.allocations[b].bytes;
  };
  std::vector<PartlyFreeSegment> list;
  for (const PartlyUsedSegment& segment : segments) {
    PartlyFreeSegment& named =
        list.emplace_back(PartlyFreeSegment{.size = segment.size,
                                            .free = segment.free,
                                            .largest_free = segment.largest_free,
                                            .in_use_count = segment.in_use.size(),
                                            .in_use = {}});
    std::vector<AllocationId> in_use = segment.in_use;
    std::stable_sort(in_use.begin(), in_use.end(), larger);
    in_use.resize(std::min(in_use.size(), kShownInUse));
    for (AllocationId id : in_use) {
      named.in_use.push_back({.tensor = names.tensor_of(id),
                              .bytes = program.allocations[id].bytes,
                              .role = program.allocations[id].role,
                              .layer = names.layer_of(id)});
    }
  }
  return list;
}

// Host memory or NVMe has run out: the reason says what holds it.
std::string off_device_reason(Tier tier, const Compiled& compiled, const Scratch& scratch,
                              const Failure& failure, const std::string& requested_for) {
  const BytesByRole held = held_by_role(compiled.program, scratch, tier, scratch.events.size());
  Bytes sum;
  std::string holders;
  for (std::size_t r = 0; r < held.size(); ++r) {
    sum += held[r];
    if (held[r] <= Bytes(0)) continue;
    holders += fmt::format("{}{} {}", holders.empty() ? "" : ", ", name_of(static_cast<Role>(r)),
                           format_bytes(held[r]));
  }
  const std::string place =
      failure.op.empty() ? "before the first step"
                         : fmt::format("in step {}, {}", failure.step, name_of(failure.phase));
  return fmt::format("out of {} {}: {} for {}; {} are live{}{}",
                     tier == Tier::kHost ? "host memory" : "NVMe", place,
                     format_bytes(failure.requested), requested_for, format_bytes(sum),
                     holders.empty() ? "" : ": ", holders);
}

// Device memory has run out: the reason says for which request, and how much is in use.
std::string device_reason(const RunResult& run, const Failure& failure, Role role,
                          const std::string& requested_for) {
  const std::string limit =
      failure.allowed && run.status == RunStatus::kOutOfMemory
          ? fmt::format(", {} allowed by memory_fraction", format_bytes(*failure.allowed))
          : std::string();
  if (failure.op.empty()) {
    return fmt::format(
        "out of device memory before the first step: {} for {} ({}); {} are placed{}",
        format_bytes(run.requested), requested_for, name_of(role),
        format_bytes(run.live_at_failure), limit);
  }
  return fmt::format(
      "out of device memory in step {}, {}: {} for {} of {}{}{}; {} are live, {} reserved{}",
      failure.step, name_of(failure.phase), format_bytes(run.requested), requested_for,
      failure.layer, failure.layer.empty() ? "" : ": ", failure.op,
      format_bytes(run.live_at_failure), format_bytes(run.reserved_at_failure), limit);
}

// Fills in the operator and the phase in which the run ended.
void fill_place(Failure& failure, const AllocationNames& names, const RunResult& run) {
  const AllocationNames::Place at = names.place(run.failed_instruction);
  failure.step = at.step;
  failure.phase = at.phase;
  failure.op = names.operator_name(at.op);
  failure.layer = names.layer_name(at.op);
  failure.requested = run.requested;
  if (run.status != RunStatus::kThrash) return;
  failure.reason = failure.message = fmt::format(
      "thrashing in step {}, {}: recomputing evicted values takes more than the policy's "
      "thrash_factor allows; give it more memory or another heuristic",
      failure.step, name_of(failure.phase));
}

}  // namespace
}  // namespace failure_report_detail

Failure failure_because(std::string reason) {
  Failure failure;
  failure.message = reason;
  failure.reason = std::move(reason);
  return failure;
}

Failure report_failure(const TrainingGraph& graph, const Compiled& compiled, const Scratch& scratch,
                       const RunResult& run, const OutOfMemory& memory) {
  const StepProgram& program = compiled.program;
  if (run.failed_instruction == kNoInstruction || run.failed_instruction >= program.size()) {
    return failure_because("the streams wait for each other");
  }
  const AllocationNames names(graph, compiled);
  Failure failure;
  failure_report_detail::fill_place(failure, names, run);
  if (!run.failed_allocation.valid()) return failure;
  // Parameters, inputs and buffers are allocated before the first operator runs. Those that were
  // offloaded are also allocated in a step, when they are fetched.
  const auto ran = program.opcode.begin() + run.failed_instruction;
  const bool runs = std::find(program.opcode.begin(), ran, Opcode::kLaunch) != ran;
  if (names.is_initial(run.failed_allocation) && !runs) failure.op.clear();
  const Allocation& allocation = program.allocations[run.failed_allocation];
  const std::string tensor = names.tensor_of(run.failed_allocation);
  const std::string requested_for =
      allocation.storage.valid() ? fmt::format("'{}'", tensor) : fmt::format("the {}", tensor);
  failure.allowed = memory.allowed;
  failure.reason =
      allocation.tier == Tier::kDevice
          ? failure_report_detail::device_reason(run, failure, allocation.role, requested_for)
          : failure_report_detail::off_device_reason(allocation.tier, compiled, scratch, failure,
                                                     requested_for);
  failure.message = memory.message.empty() ? failure.reason : memory.message;
  failure.rounded = memory.rounded;
  failure.segment = memory.segment;
  failure.device_free = memory.device_free;
  failure.largest_free = memory.largest_free;
  failure.free_in_segments = memory.free_in_segments;
  failure.partly_free = failure_report_detail::named_segments(names, program, memory.partly_free);
  return failure;
}

}  // namespace tidemark
