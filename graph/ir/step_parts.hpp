// The parts of a step: named lists of operators that a schedule puts in order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "graph/core/ids.hpp"

namespace tidemark {

enum class PartKind : std::uint8_t {
  kZeroGrad,
  kForward,
  kBackward,
  // Backward that adds to gradients that exist; empty where nothing differs from backward.
  kBackwardAccumulate,
  // Backward of the last of several micro-batches, where data ranks bring their gradients together;
  // empty where nothing differs from the others'.
  kBackwardReduce,
  kOptimizerFirst,  // optimizer of step 0 only: creates its state
  kOptimizer,
  kAfterOptimizer,  // ranks bring together what each has updated
  kEndOfStep,
  // The gradients of weights, where a schedule runs them apart from the backward that they belong
  // to; see split_backward(). Empty where backward makes them itself.
  kBackwardWeight,
  kBackwardWeightAccumulate,
  kBackwardWeightReduce,
  // Backward of step 0 where it updates parameters, and creates the optimizer's state; empty
  // elsewhere.
  kBackwardFirst,
  // The step unscales all gradients at once or clips their norm.
  kBeforeOptimizer,
  // Forward of the micro-batches behind the first of a step, which begin with gathered parameters,
  // or shards of them, that the first one has kept; empty where it is as in the first one.
  kForwardLater,
  // The reducing backward of step 0, where data ranks learn in it how to divide their gradients;
  // empty where it is as in later steps.
  kBackwardReduceFirst,
};
inline constexpr std::size_t kPartKinds = 16;

[[nodiscard]] constexpr std::string_view name_of(PartKind kind) {
  constexpr std::string_view kNames[] = {"zero_grad",
                                         "forward",
                                         "backward",
                                         "backward_accumulate",
                                         "backward_reduce",
                                         "optimizer_first",
                                         "optimizer",
                                         "after_optimizer",
                                         "end_of_step",
                                         "backward_weight",
                                         "backward_weight_accumulate",
                                         "backward_weight_reduce",
                                         "backward_first",
                                         "before_optimizer",
                                         "forward_later",
                                         "backward_reduce_first"};
  return kNames[static_cast<std::size_t>(kind)];
}

[[nodiscard]] constexpr bool is_forward(PartKind kind) {
  return kind == PartKind::kForward || kind == PartKind::kForwardLater;
}
[[nodiscard]] constexpr bool is_backward(PartKind kind) {
  return kind == PartKind::kBackward || kind == PartKind::kBackwardAccumulate ||
         kind == PartKind::kBackwardReduce || kind == PartKind::kBackwardFirst ||
         kind == PartKind::kBackwardReduceFirst;
}
[[nodiscard]] constexpr bool is_weight_backward(PartKind kind) {
  return kind == PartKind::kBackwardWeight || kind == PartKind::kBackwardWeightAccumulate ||
         kind == PartKind::kBackwardWeightReduce;
}
// Returns the part with the weight gradients of a backward.
[[nodiscard]] constexpr PartKind weight_part_of(PartKind backward) {
  return backward == PartKind::kBackward             ? PartKind::kBackwardWeight
         : backward == PartKind::kBackwardAccumulate ? PartKind::kBackwardWeightAccumulate
                                                     : PartKind::kBackwardWeightReduce;
}

// The work on a micro-batch that a pipeline's schedule puts in order, whatever the part's form.
enum class StageWork : std::uint8_t { kForward, kBackward, kWeightGradients };
inline constexpr StageWork kStageWorks[] = {StageWork::kForward, StageWork::kBackward,
                                            StageWork::kWeightGradients};
// Returns "F", "B" or "W", as schedules are written: "F0 F1 B0 W0".
[[nodiscard]] constexpr char letter_of(StageWork work) {
  return "FBW"[static_cast<std::size_t>(work)];
}
// Returns the work of a part; none for parts that are no work on a micro-batch.
[[nodiscard]] constexpr std::optional<StageWork> stage_work_of(PartKind kind) {
  if (is_forward(kind)) return StageWork::kForward;
  if (is_backward(kind)) return StageWork::kBackward;
  if (is_weight_backward(kind)) return StageWork::kWeightGradients;
  return std::nullopt;
}

using PartId = Id<struct PartTag>;

struct StepPart {
  PartKind kind = PartKind::kForward;
  // Number of the piece of the model that the part computes: a rank of an interleaved pipeline has
  // several, each with a forward and a backward.
  std::uint16_t chunk = 0;
  std::vector<OperatorId> operators;  // operators in issue order
};

// The parts of one training graph. Those of chunk 0 exist from the start, one of each kind in the
// order of PartKind, empty where the step has no such work.
class StepParts {
 public:
  StepParts();

  // Returns the operators of a part, which is added if it is new. A new chunk's part may move the
  // others.
  [[nodiscard]] std::vector<OperatorId>& of(PartKind kind, std::uint16_t chunk = 0);
  // Returns the operators of a part; empty for a part that does not exist.
  [[nodiscard]] const std::vector<OperatorId>& of(PartKind kind, std::uint16_t chunk = 0) const;

  [[nodiscard]] const IdVector<PartId, StepPart>& all() const { return parts_; }

 private:
  [[nodiscard]] PartId find(PartKind kind, std::uint16_t chunk) const;
  IdVector<PartId, StepPart> parts_;
};

}  // namespace tidemark
