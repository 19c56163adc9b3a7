// The kinds of policies, each of which answers one question. None of them knows the engine.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "graph/analysis/liveness.hpp"
#include "graph/analysis/program_order.hpp"
#include "graph/ir/training_graph.hpp"
#include "graph/rewrite/detach_segments.hpp"
#include "hwprofiles/device_profile.hpp"
#include "policies/plan/policy_base.hpp"
#include "policies/plan/residency_plan.hpp"

namespace tidemark {

class PlanCache;  // policies/solver/plan_cache.hpp
class TrainingRewrite;

// The cost of a step under a plan, as a run without a memory limit measures it.
struct TrialFigures {
  Bytes peak_live;  // peak of the last step, copies in flight included
  Bytes peak_reserved;
  Duration step{};
};

// Tries a plan of the context that it comes with: recomputation is inserted, the step lowered and
// run. It serves policies that must try plans and is implemented in a layer above them.
class TrialRun {
 public:
  virtual ~TrialRun() = default;
  [[nodiscard]] virtual TrialFigures run(const ResidencyPlan& plan) const = 0;
  // Returns whether the step runs on its device with this plan.
  [[nodiscard]] virtual bool fits(const ResidencyPlan& plan) const = 0;
};

// The view of a run that policies get.
struct PolicyContext {
  const TrainingGraph& graph;
  const ProgramOrder& order;
  const Liveness& live;
  const IdVector<OperatorId, Duration>& durations;  // predicted, on this device
  const DeviceProfile& device;
  const TrialRun* trial = nullptr;  // none where a plan is made without a step to run
  // The outcome of the same policy for the same graph with less memory; null where there is none.
  // With more memory a plan is never worse.
  const PolicyOutcome* smaller_budget = nullptr;
  // Device memory that a process takes outside its allocator: the CUDA context, NCCL's buffers.
  Bytes process_overhead{};
  // Device memory that an order for the whole device leaves free, since allocators take more than
  // what is live.
  Bytes held_back{};
  // The rewrites that decide when offloaded values are fetched, in this order.
  std::span<const TrainingRewrite* const> rewrites = {};
  // The cache of plans that are made once for all runs; null where each run makes its own.
  PlanCache* plans = nullptr;

  [[nodiscard]] const Operator& op_at(Position p) const { return graph.operators[order.at[p].op]; }
  [[nodiscard]] int block_at(Position p) const { return graph.block_of(order.at[p].op); }
};

// Decides where a value is during a gap.
class ResidencyPolicy : public Policy {
 public:
  [[nodiscard]] bool acts_in_evaluation(bool /*computes_loss*/) const override { return false; }
  // Returns the segments of so many blocks that it runs by torch.utils.checkpoint's autograd
  // function, which makes gradients only where an input of a segment requires one.
  [[nodiscard]] virtual std::vector<BlockRange> reentrant_segments(int /*blocks*/) const {
    return {};
  }
  // The recomputation pass closes gaps by recomputing. `plan` takes Recompute and Keep, and Offload
  // from policies that choose between both: those come first in the movement pass, unchanged.
  virtual void plan_recompute(const PolicyContext& context, ResidencyPlan& plan) const;
  // The movement pass, over the order with its repeats, closes gaps by moving values. `plan` takes
  // Offload and Keep.
  virtual void plan_movement(const PolicyContext& context, ResidencyPlan& plan) const;
};

// Decides the order of operators and their repeats.
class SequencePolicy : public Policy {
 public:
  [[nodiscard]] bool acts_in_evaluation(bool /*computes_loss*/) const override { return false; }
  // Every occurrence of the given order must appear at least once. May add to `outcome`.
  [[nodiscard]] virtual ProgramOrder order(const PolicyContext& context,
                                           PolicyOutcome& outcome) const = 0;
  // Whether the order is one for the memory of the device. It is asked for again with more held
  // back where its step does not fit.
  [[nodiscard]] virtual bool fills_device() const { return false; }
  // Returns the policies that may stand in where no order of this one fits the device, since their
  // orders are open to this one, too: those that construct orders and search nothing at random.
  [[nodiscard]] virtual std::vector<std::unique_ptr<SequencePolicy>> stand_ins() const {
    return {};
  }
};

// Positions of one micro-batch of one step whose operators belong to one repeated block.
struct BlockRegion {
  int step = 0;
  int micro_batch = 0;
  int first_block = 0;  // first block of the segment
  int last_block = 0;
  std::vector<Position> forward;
  std::vector<Position> backward;
  // The position where the training loop drops this micro-batch's loss, and with it the graph:
  // after its backward where micro-batches are accumulated, otherwise at the end of the step.
  Position loss_dropped;
};

// Returns the positions of every `period` consecutive blocks, by step, micro-batch and segment.
// Positions that already repeat others are left out.
[[nodiscard]] std::vector<BlockRegion> block_segments(const PolicyContext& context, int period);

}  // namespace tidemark
