#include "sim/step/peak_report.hpp"

#include <algorithm>
#include <string>
#include <string_view>
#include <unordered_map>

#include "graph/analysis/module_names.hpp"
#include "sim/result/timeline.hpp"
#include "sim/step/allocation_names.hpp"

namespace tidemark {
namespace peak_report_detail {
namespace {

// Returns when the compute stream reaches an instruction: the start of the first kernel from there
// on.
Duration time_of(const StepProgram& program, const Scratch& scratch, std::uint32_t instruction,
                 Duration begin) {
  for (std::size_t i = instruction; i < program.size(); ++i) {
    const bool compute = program.stream[i] == static_cast<std::uint8_t>(Stream::kCompute);
    if (program.opcode[i] != Opcode::kLaunch || !compute) continue;
    return std::max(Duration(scratch.started[i]) - begin, Duration(0));
  }
  return {};
}

// Returns the layers by what they hold, largest first, then by name.
std::vector<std::pair<std::string, Bytes>> by_bytes(
    const std::unordered_map<std::string_view, Bytes>& layers) {
  std::vector<std::pair<std::string, Bytes>> sorted(layers.begin(), layers.end());
  std::sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) {
    return a.second != b.second ? a.second > b.second : a.first < b.first;
  });
  return sorted;
}

}  // namespace
}  // namespace peak_report_detail

PeakReport report_peak(const TrainingGraph& graph, const Compiled& compiled, const Scratch& scratch,
                       const Peak& peak, std::size_t largest, Duration begin) {
  PeakReport report;
  if (peak.instruction == kNoInstruction) return report;
  const StepProgram& program = compiled.program;
  const AllocationNames names(graph, compiled);
  const AllocationNames::Place at = names.place(peak.instruction);
  report.step = at.step;
  report.phase = at.phase;
  report.op = names.operator_name(at.op);
  report.layer = names.layer_name(at.op);
  report.time = peak_report_detail::time_of(program, scratch, peak.instruction, begin);

  const std::vector<AllocationId> live = live_allocations(program, scratch, peak);
  report.by_role = bytes_by_role(program, live);
  const ModuleNames modules(graph);
  std::unordered_map<std::string_view, Bytes> layers;
  for (AllocationId allocation : live) {
    const StorageId storage = program.allocations[allocation].storage;
    const std::string_view module =
        storage.valid() ? modules.of(storage) : modules.of(names.made_by(allocation));
    layers[module] += program.allocations[allocation].bytes;
    if (report.largest.size() == largest) continue;
    const bool initial = names.is_initial(allocation);
    report.largest.push_back(
        {.tensor = names.tensor_of(allocation),
         .bytes = program.allocations[allocation].bytes,
         .role = program.allocations[allocation].role,
         .op = initial ? std::string() : names.operator_name(names.made_by(allocation)),
         .layer = names.layer_of(allocation)});
  }
  report.by_layer = peak_report_detail::by_bytes(layers);
  return report;
}

}  // namespace tidemark
