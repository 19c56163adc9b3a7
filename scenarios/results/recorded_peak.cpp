#include "scenarios/results/recorded_peak.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "scenarios/results/peak_terms.hpp"
#include "sim/engine/engine.hpp"
#include "sim/memory/torch/torch_recorder.hpp"

namespace tidemark {
namespace recorded_peak_detail {
namespace {

class Labels {
 public:
  Labels(const TrainedModel& model, const Compiled& compiled)
      : graph_(model.training),
        compiled_(compiled),
        allocated_at_(compiled.program.allocations.size(), kNoInstruction) {
    const StepProgram& program = compiled.program;
    for (std::uint32_t i = 0; i < program.size(); ++i) {
      if (program.opcode[i] == Opcode::kAllocate)
        allocated_at_[AllocationId(program.subject[i])] = i;
    }
  }
  [[nodiscard]] LiveAllocation of(AllocationId id, Bytes bytes) const {
    const Allocation& allocation = compiled_.program.allocations[id];
    if (id == compiled_.program.matmul_workspace) return {bytes, "cuBLAS workspace", {}};
    const Position at = compiled_.program.position[allocated_at_[id]];
    const Operator& op = graph_.operators[compiled_.order.at[at].op];
    LargestTensor tensor{.tensor = "workspace"};
    LayerId layer = op.layer;
    if (allocation.storage.valid()) {
      tensor.tensor = graph_.storages[allocation.storage].name;
      layer = graph_.storages[allocation.storage].layer;
    }
    tensor.layer = std::string(graph_.layer_name(layer));
    const std::string pattern = pattern_of(tensor.layer);
    const Phase phase = compiled_.program.slot[at.index()].phase;
    // A kernel is named as in a snapshot, whatever its node: a fused loss runs linear products.
    LiveAllocation live{.bytes = bytes,
                        .label = fmt::format("{}{}{} ({})", pattern, pattern.empty() ? "" : ": ",
                                             name_in_layer(tensor), name_of(allocation.role)),
                        .names = {.phase = std::string(name_of(phase)),
                                  .op = operator_family(op.name),
                                  .layer = tensor.layer,
                                  .tensor = tensor.tensor}};
    if (allocation.storage.valid() && graph_.storages[allocation.storage].initial) {
      live.names.phase = "initial";
      live.names.op = name_of(allocation.role);
    } else if (phase == Phase::kOptimizer) {
      live.names.op = op.part == OperatorPart::kCreateState ? "create_state" : "update";
    }
    return live;
  }

 private:
  const TrainingGraph& graph_;
  const Compiled& compiled_;
  IdVector<AllocationId, std::uint32_t> allocated_at_;  // the instruction that allocates
};

}  // namespace
}  // namespace recorded_peak_detail

RecordedPeak peak_of_recording(const TrainedModel& model, const Compiled& compiled,
                               const TorchRecorder& recorder) {
  const std::vector<TorchTraceEntry>& entries = recorder.entries();
  RecordedPeak peak;
  Bytes live;
  Bytes reserved;
  std::size_t until = 0;  // entries up to the peak
  for (std::size_t e = 0; e < entries.size(); ++e) {
    const TorchTraceEntry& entry = entries[e];
    switch (entry.action) {
      case TorchTraceAction::kSegmentAlloc:
      case TorchTraceAction::kSegmentMap:
        reserved += entry.size;
        break;
      case TorchTraceAction::kSegmentFree:
      case TorchTraceAction::kSegmentUnmap:
        reserved -= entry.size;
        break;
      case TorchTraceAction::kOutOfMemory:
        peak.out_of_memory = true;
        break;
      case TorchTraceAction::kAlloc:
        ++peak.allocations;
        live += entry.size;
        break;
      case TorchTraceAction::kFreeRequested:
        live -= entry.size;
        break;
      case TorchTraceAction::kFreeCompleted:
        break;
    }
    peak.most_reserved = std::max(peak.most_reserved, reserved);
    if (live > peak.bytes) {
      peak.bytes = live;
      peak.reserved = reserved;
      until = e + 1;
    }
  }
  // An evicted tensor is allocated more than once: the last time counts.
  IdVector<AllocationId, std::size_t> newest(compiled.program.allocations.size(), 0);
  for (std::size_t e = 0; e < until; ++e) {
    if (entries[e].action == TorchTraceAction::kAlloc) newest[entries[e].allocation] = e + 1;
    if (entries[e].action == TorchTraceAction::kFreeRequested) newest[entries[e].allocation] = 0;
  }
  const recorded_peak_detail::Labels labels(model, compiled);
  for (std::size_t e = 0; e < until; ++e) {
    const TorchTraceEntry& entry = entries[e];
    if (entry.action != TorchTraceAction::kAlloc || newest[entry.allocation] != e + 1) continue;
    peak.live.push_back(labels.of(entry.allocation, entry.size));
  }
  return peak;
}

}  // namespace tidemark
