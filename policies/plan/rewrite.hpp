// Policy kinds that change what is computed. A ForwardRewrite changes the model before it is
// differentiated, and so what autograd saves; a TrainingRewrite changes the step afterwards.
#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "graph/ir/graph.hpp"
#include "graph/ir/training_graph.hpp"
#include "policies/plan/policy.hpp"
#include "policies/plan/rewrite_context.hpp"

namespace tidemark {

struct PipelineOptions;  // policies/rewrite/pipeline.hpp

// The stages of forward rewrites in the order of their application, whatever order the scenario
// lists them in. Kernels of a library replace the model's own code first. Adapters come before the
// cuts among ranks, which divide them with their layer, and quantisation behind: each rank
// quantises what it has.
enum class ForwardStage {
  kKernels,
  kFreeze,
  kAdapt,
  kExpert,
  kContext,
  kTensor,
  kParallel,
  kQuantise,
  kPrecision,
  kFuse
};
enum class TrainingStage {
  kCompile,
  kAccumulate,
  kPartition,
  kPlace,
  kClip,
  kOptimizer,
  kAverage,
  kCompress
};

class ForwardRewrite : public Policy {
 public:
  // It decides nothing once the step is there.
  [[nodiscard]] bool decides_by_structure() const final { return true; }
  // One that asks the trial for its capacity says so.
  [[nodiscard]] bool looks_at_capacity() const override { return false; }
  [[nodiscard]] virtual ForwardStage stage() const = 0;
  [[nodiscard]] virtual Graph apply(const Graph& graph, const RewriteContext& context) const = 0;
  // Returns a rewrite of a later stage that belongs to this one; null where there is none.
  [[nodiscard]] virtual const ForwardRewrite* next() const { return nullptr; }
  // Returns the type that the model is made in under autocast to `low`, where that is not fp32:
  // that of weights which are loaded in 16 bit, to be frozen.
  [[nodiscard]] virtual std::optional<DType> model_dtype(DType /*low*/) const {
    return std::nullopt;
  }
  // Returns how the model is cut into the stages of a pipeline; null where the policy cuts nothing.
  [[nodiscard]] virtual const PipelineOptions* pipeline() const { return nullptr; }
};

class TrainingRewrite : public Policy {
 public:
  [[nodiscard]] bool looks_at_capacity() const override { return false; }
  [[nodiscard]] virtual TrainingStage stage() const = 0;
  // Changes the graph in place: rewrites add operators and storages, ids stay what they are.
  virtual void apply(TrainingGraph& graph, const RewriteContext& context) const = 0;
  // Whether it reduces the gradients of data ranks. If no policy does, data_parallel does so for
  // several data ranks.
  [[nodiscard]] virtual bool reduces_gradients() const { return false; }
  // Returns how many neighbours backward gathers among, if they are fewer than those that share the
  // parameters; else 1.
  [[nodiscard]] virtual int gather_ranks() const { return 1; }
  // Whether it keeps whole parameters elsewhere than on the device, which ranks that have shards of
  // them gather there first.
  [[nodiscard]] virtual bool moves_parameters() const { return false; }
  // Returns a rewrite of a later stage that belongs to this one, which plans its movement as well;
  // null where there is none.
  [[nodiscard]] virtual const TrainingRewrite* next() const { return nullptr; }
  // Closes gaps of what the rewrite has added by recomputing, such as by gathering again; comes
  // before the residency policies, see ResidencyPolicy::plan_recompute.
  virtual void plan_recompute(const PolicyContext& context, ResidencyPlan& plan) const;
  // The type in which the model computes, where that is not the one that its parameters are kept
  // in.
  [[nodiscard]] virtual std::optional<DType> compute_dtype() const { return std::nullopt; }
  // Fetches values that the rewrite has given another home ahead of time, and throttles: called
  // with the residency policies, see ResidencyPolicy::plan_movement.
  virtual void plan_movement(const PolicyContext& context, ResidencyPlan& plan) const;
};

}  // namespace tidemark
