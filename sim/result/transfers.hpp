// The transfers of the last step: per tensor its window, its copies, the time that compute lost to
// them and the memory that they saved.
#pragma once

#include <vector>

#include "graph/core/units.hpp"
#include "graph/ir/training_graph.hpp"
#include "sim/engine/engine.hpp"
#include "sim/program/step_program.hpp"
#include "sim/result/timeline.hpp"

namespace tidemark {

// One stay of a tensor off the device, or one visit of a tensor whose home is another tier.
//
// compute   [made].......off device..........[used]
// d2h            [copy_out]
// h2d                          [copy_in]
//                |------window----------|
struct MovedTensor {
  StorageId storage;
  Bytes bytes;
  Tier farthest = Tier::kHost;  // the farthest tier that it went to
  Duration window{};            // time from when a copy could first start to the next use
  Duration copies{};            // copy time on all links
  Duration stall{};             // time that compute waited for these copies
  bool saves_at_peak = false;   // whether it was off the device at the peak of live bytes
};

struct TransferReport {
  std::vector<MovedTensor> tensors;  // largest stall first, then largest
  Duration copies{};                 // copy time on all links in the last step
  Duration exposed{};                // the part of it that compute waited for
  Bytes bytes_out;                   // device to host
  Bytes bytes_in;
  Bytes saved_at_peak;  // bytes off the device when the live bytes peaked

  // Returns 1 when compute waited for none of the copies.
  [[nodiscard]] double hidden() const;
};

// Reports the transfers of a run that recorded its events.
[[nodiscard]] TransferReport transfers(const TrainingGraph& graph, const StepProgram& program,
                                       const Scratch& scratch, const RunResult& run);

// Returns the busy time of the links in the last step, and the share of it that compute did not
// wait for.
[[nodiscard]] Duration copy_time(const RunResult& run);
[[nodiscard]] double hidden_share(const RunResult& run);

// Returns the bytes that the host or NVMe (`tier`) holds after the first `events` events, by role;
// with buffers that are freed but still in a stream's use, as in RunResult.
[[nodiscard]] BytesByRole held_by_role(const StepProgram& program, const Scratch& scratch,
                                       Tier tier, std::size_t events);

}  // namespace tidemark
