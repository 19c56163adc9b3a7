// Writes a run as the file that torch.cuda.memory._dump_snapshot() writes: it opens in PyTorch's
// memory_viz page and in torch/cuda/_memory_viz.py.
#pragma once

#include <ostream>

#include "graph/analysis/program_order.hpp"
#include "graph/ir/training_graph.hpp"
#include "sim/memory/torch/torch_recorder.hpp"
#include "sim/result/timeline.hpp"

namespace tidemark {

// Writes {"segments": the end of the run, "device_traces": [everything from the start of it]}. A
// block's stack names the tensor, then its operator and layer, then phase and step; its category is
// torch.profiler's. `timeline` is that of the run in which `recorder` handed out the memory: it
// gives the times.
void write_torch_snapshot(std::ostream& out, const TrainingGraph& graph, const ProgramOrder& order,
                          const StepProgram& program, const MemoryTimeline& timeline,
                          const TorchRecorder& recorder);

}  // namespace tidemark
