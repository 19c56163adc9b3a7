// The context of a run before its step is built, for reading the parameters of policies and for
// applying rewrites.
#pragma once

#include "graph/operators/framework.hpp"
#include "hwprofiles/device_profile.hpp"
#include "hwprofiles/mesh.hpp"

namespace tidemark {

struct ModelOptions;    // graph/models/model_options.hpp
struct PrecisionRules;  // policies/rewrite/precision.hpp

// Device, framework and precision are absent where parameters are only described, and in tests of
// rewrites that look at none of them.
struct RewriteContext {
  Mesh mesh;
  const DeviceProfile* device = nullptr;
  const FrameworkRules* framework = nullptr;
  const PrecisionRules* precision = nullptr;
  const ModelOptions* model = nullptr;  // sizes of the micro-batch, as absent as those above
  bool computes_loss = true;            // false where a model is evaluated without its loss
  // The piece of the model that the graph computes, where a pipeline cuts it: 0 is the first one.
  int piece = 0;
};

}  // namespace tidemark
