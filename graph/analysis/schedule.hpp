// A step as a schedule: the part that runs for each micro-batch, in the order of one rank.
//
//   plain, 3 micro-batches       zero F0 B0 F1 B1 F2 B2 optimizer end
//   GPipe                        zero F0 F1 F2 B0 B1 B2 optimizer end
//   1F1B, stage 0 of 2           zero F0 F1 B0 F2 B1 B2 optimizer end
//   zero bubble, stage 1 of 2    zero F0 B0 F1 B1 W0 F2 B2 W1 W2 optimizer end
//   forward only                 F0 F1 F2 end
//   two turns, 1 micro-batch     zero F0.0 B0.0 optimizer end zero F1.1 B1.1 optimizer end
//
// A pipeline is one schedule per rank, each over the rank's own graph.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "graph/ir/training_graph.hpp"

namespace tidemark {

struct ScheduledPart {
  PartKind part = PartKind::kForward;
  std::uint16_t micro_batch = 0;
  std::uint16_t chunk = 0;
  friend bool operator==(const ScheduledPart&, const ScheduledPart&) = default;
};

struct StepSchedule {
  std::vector<ScheduledPart> first_step;  // the first that updates parameters
  std::vector<ScheduledPart> later_steps;
  int micro_batches = 1;
  std::vector<std::vector<ScheduledPart>> skipped_steps;  // steps before it, without an update

  [[nodiscard]] const std::vector<ScheduledPart>& of(int step) const {
    const auto skipped = static_cast<int>(skipped_steps.size());
    if (step < skipped) return skipped_steps[static_cast<std::size_t>(step)];
    return step == skipped ? first_step : later_steps;
  }
};

// Forward and backward of each micro-batch in turn: one is over before the next begins.
[[nodiscard]] std::vector<ScheduledPart> one_after_another(int micro_batches);
// All forwards, then all backwards (Huang et al. 2019, GPipe).
[[nodiscard]] std::vector<ScheduledPart> gpipe(int micro_batches);
// One forward, one backward in turn once min(micro_batches, stages - stage - 1) forwards are under
// way, so that at most min(micro_batches, stages - stage) have no backward yet (Narayanan et al.
// 2019, PipeDream-Flush). `stage` counts from 0.
[[nodiscard]] std::vector<ScheduledPart> one_forward_one_backward(int stages, int stage,
                                                                  int micro_batches);

// Returns the schedule of a step that trains: zero_grad, the micro-batches' work, the optimizer,
// the end of the step. `work` names forwards and backwards; a backward that finds gradients becomes
// the accumulating one. Throws InternalError when a micro-batch of a chunk is not forward and then
// backward once.
[[nodiscard]] StepSchedule training_schedule(const TrainingGraph& graph,
                                             std::span<const ScheduledPart> work);
// Returns the training schedule with the graph's micro-batches one after another. Turns follow each
// other, each a step of its own; their micro-batches are numbered through.
[[nodiscard]] StepSchedule training_schedule(const TrainingGraph& graph);
// Returns the schedule of a step that only evaluates: the forwards of the graph's micro-batches and
// the end of the step.
[[nodiscard]] StepSchedule forward_schedule(const TrainingGraph& graph);
// Returns the schedule of a step that only evaluates, with the forwards of `work` in their order.
[[nodiscard]] StepSchedule forward_schedule(const TrainingGraph& graph,
                                            std::span<const ScheduledPart> work);

}  // namespace tidemark
