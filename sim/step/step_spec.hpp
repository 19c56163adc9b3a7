// One training step to simulate: the model, how it is trained, on which device, under which
// allocator and policies.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/autodiff/differentiate_options.hpp"
#include "graph/ir/graph.hpp"
#include "graph/ir/training_graph.hpp"
#include "graph/models/model_options.hpp"
#include "graph/operators/framework.hpp"
#include "hwprofiles/device_profile.hpp"
#include "hwprofiles/mesh.hpp"
#include "policies/adapt/name_patterns.hpp"
#include "policies/compile/partition.hpp"
#include "policies/data/load.hpp"
#include "policies/data/loader.hpp"
#include "policies/plan/entry.hpp"
#include "policies/plan/rewrite_context.hpp"
#include "policies/rewrite/accumulate.hpp"
#include "policies/rewrite/ema.hpp"
#include "policies/rewrite/fp8.hpp"
#include "policies/rewrite/loss_scale.hpp"
#include "policies/rewrite/optimizer.hpp"
#include "policies/rewrite/precision.hpp"
#include "sim/allocators/allocator_model.hpp"
#include "sim/engine/cost_table.hpp"
#include "sim/memory/page_locked_memory.hpp"

namespace tidemark {

class PlanCache;  // policies/solver/plan_cache.hpp

// Builds the model: exactly one of the two functions is set.
struct ModelSource {
  // The forward graph, which is then rewritten and differentiated.
  std::function<Graph(const ModelOptions&)> forward;
  // A whole step that is trained already, such as a cost graph.
  std::function<TrainingGraph()> step;
};

// The mode of a step: it trains the model, or evaluates it by a forward pass only.
enum class StepMode { kTrain, kForward };

struct TrainingOptions {
  StepMode mode = StepMode::kTrain;
  ModelOptions model;  // micro_batch, sequence, image, dtype, attention, dropout, loss
  std::int64_t accumulate = 1;
  int steps = 2;
  Precision precision = Precision::kBf16Mixed;
  OptimizerSpec optimizer;
  const FrameworkRules* framework = nullptr;
  std::optional<DType> gradient_dtype;
  ZeroGrad zero_grad = ZeroGrad::kNone;
  std::optional<LossScaleOptions> loss_scale;
  std::optional<double> clip_grad_norm;  // the largest norm of all gradients
  std::optional<EmaOptions> ema;
  HoldOutput hold_output = HoldOutput::kNothing;
  HeldUntil held_until = HeldUntil::kEndOfStep;
  bool autocast_cache = true;
  Fp8Recipe fp8 = Fp8Recipe::kDelayed;  // recipe of fp8_mixed
  std::optional<CompileScope> compile;  // torch.compile
  bool channels_last = false;           // memory_format of the model and its images
  HostClock host = HostClock::kEager;
  std::optional<LoaderSpec> loader;  // absent: data is always there
  std::optional<LoadSpec> load;      // absent: weights are there from the start
  bool evaluates_loss = false;       // kForward computes the loss, too
  // The system whose cross-entropy is taken; the one that trains the model unless given.
  std::optional<TrainingSystem> loss_of;
};

struct StepSpec;

// A turn of a step: a model with a loss of its own, and the parameters that its optimizer updates.
struct Turn {
  std::shared_ptr<const StepSpec> step;
  NamePatterns train;  // all that get a gradient here where there are no patterns
};

// The description of one point; policies are in the order in which they are listed.
struct StepSpec {
  std::string name;
  ModelSource source;
  // Specs with equal keys build equal models, which may then be shared.
  std::string training_key;
  // Whether a reentrant policy may leave blocks without gradients (detach_segments.hpp), as it may
  // where policies freeze parameters. training_key names its segments then.
  bool may_detach = true;
  std::vector<Turn> turns;  // of the step; empty for one loss and one optimizer
  DeviceProfile device;
  Mesh mesh;                 // data-parallel ranks; each is equal, so one is simulated
  MeshRequest mesh_request;  // of its policies
  TrainingOptions training;
  std::unique_ptr<const AllocatorModel> allocator;          // the device's allocator, never null
  PageLockedMemory page_locked = PageLockedMemory::kExact;  // key host_allocator
  std::vector<AnyPolicy> policies;
  std::vector<std::string> policy_names;
  // The list of policies as text: those of equal texts have the same parameters. Empty: unknown.
  std::string policies_key;
  PlanCache* plans = nullptr;  // outlives the spec; null where each step makes its own plans
};

// Returns the program that trains the model on several GPUs: that of the policy that reduces the
// gradients, else of another policy that belongs to one. Without either, 16-bit weights whose
// gradients are kept in fp32 are Megatron-LM's main_grad. One GPU is always PyTorch's.
[[nodiscard]] TrainingSystem training_system(const StepSpec& spec);

// Returns the view of a step that rewrites get; it refers to the spec.
[[nodiscard]] RewriteContext rewrite_context(const StepSpec& spec);

// Limits of a step that is one of many which are tried for one answer. Most searches end by their
// iterations, so that the answer is the same on every machine.
inline constexpr SearchLimits kTrialSearch{.iterations = 500, .time = std::chrono::seconds(2)};

// Limits the searches of all policies whose parameters do not. Returns whether there are any.
bool limit_searches(StepSpec& spec, const SearchLimits& limits);

// Returns the policies of one kind, in the order in which they are listed.
template <class Policy>
[[nodiscard]] std::vector<const Policy*> policies_of(const StepSpec& spec) {
  std::vector<const Policy*> found;
  for (const AnyPolicy& policy : spec.policies) {
    if (const auto* p = std::get_if<std::unique_ptr<Policy>>(&policy)) found.push_back(p->get());
  }
  return found;
}

}  // namespace tidemark
