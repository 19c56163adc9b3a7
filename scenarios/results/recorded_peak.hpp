// Returns the peak of a simulated run as its allocator saw it, to be compared with a snapshot.
#pragma once

#include "sim/memory/torch/torch_recorder.hpp"
#include "sim/memory/trace/peak_allocations.hpp"
#include "sim/step/compile.hpp"

namespace tidemark {

// Looks at all steps, up to a request that failed: the run that `report.formats: [torch_snapshot]`
// writes. Labels are alike for tensors that repeated layers have alike: "h.*.mlp: linear.output
// (temporary)".
[[nodiscard]] RecordedPeak peak_of_recording(const TrainedModel& model, const Compiled& compiled,
                                             const TorchRecorder& recorder);

}  // namespace tidemark
