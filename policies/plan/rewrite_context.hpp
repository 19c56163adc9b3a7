// The context of a run before its step is built, for reading the parameters of policies and for
// applying rewrites.
#pragma once

#include <string>

#include "graph/core/units.hpp"
#include "graph/operators/framework.hpp"
#include "hwprofiles/device_profile.hpp"
#include "hwprofiles/mesh.hpp"
#include "policies/plan/mesh_request.hpp"
#include "policies/plan/policy_base.hpp"

namespace tidemark {

struct Graph;           // graph/ir/graph.hpp
struct ModelOptions;    // graph/models/model_options.hpp
struct PrecisionRules;  // policies/rewrite/precision.hpp

// Tries whole steps for a forward rewrite that chooses among several models.
class ModelTrial {
 public:
  virtual ~ModelTrial() = default;
  // Returns the memory that the device has for a step beside the process overhead. Only for a
  // rewrite that looks_at_capacity().
  [[nodiscard]] virtual Bytes capacity() const = 0;
  // Returns the peak of live bytes of a step of this model, after the rewrites that follow the one
  // that asks, under the policies that recompute and move values. Memory is unlimited.
  [[nodiscard]] virtual Bytes live_peak(const Graph& graph) const = 0;
  // Adds a sentence about the choice to the warnings of the result.
  virtual void note(std::string sentence) = 0;
};

// The device's capacity is the trial's to tell. Device, framework and precision are absent where
// parameters are only described, and in tests of rewrites that look at none of them.
struct RewriteContext {
  Mesh mesh;
  MeshRequest request;  // what the policies ask of it
  const DeviceProfile* device = nullptr;
  const FrameworkRules* framework = nullptr;
  const PrecisionRules* precision = nullptr;
  const ModelOptions* model = nullptr;  // sizes of the micro-batch, as absent as those above
  bool computes_loss = true;            // false where a model is evaluated without its loss
  // The piece of the model that the graph computes, where a pipeline cuts it: 0 is the first one.
  int piece = 0;
  TrainingSystem system = TrainingSystem::kTorch;
  ModelTrial* trial = nullptr;  // absent within a trial and where no step is built
};

}  // namespace tidemark
