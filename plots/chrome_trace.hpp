// A run as Chrome's trace events in the shape that PyTorch's profiler (Kineto) writes: it opens in
// Perfetto's UI, chrome://tracing and Holistic Trace Analysis.
//
// Format: "Trace Event Format" of the Chromium project; names, categories and arguments of Kineto:
// kernel and gpu_memcpy with args.stream and device, cpu_op, and the cuda_runtime calls between
// them, tied by "External id" and by correlation; user annotations for steps and phases; counters
// of memory by role; flows from forward to recomputation, from copy out to copy in to use;
// lifetimes of tensors as asynchronous events. Timestamps in microseconds.
#pragma once

#include <ostream>
#include <string>

#include "plots/trace_model.hpp"

namespace tidemark {

struct TraceTitle {
  std::string name;    // name of the run
  std::string device;  // "a100-sxm-80gb"
  Bytes capacity;      // capacity of the device
  int ranks = 1;       // ranks of the run; the first is shown
};

void write_chrome_trace(std::ostream& out, const TrainingGraph& graph, const StepProgram& program,
                        const TraceModel& model, const TraceTitle& title);

}  // namespace tidemark
