// What is known of a run before its step is built: what a policy may look at while its parameters
// are read, and a rewrite when it is applied.
#pragma once

#include "graph/operators/framework.hpp"
#include "hwprofiles/device_profile.hpp"
#include "hwprofiles/mesh.hpp"

namespace tidemark {

struct PrecisionRules;  // policies/rewrite/precision.hpp

// Without device, framework and precision where parameters are only described, and in tests of
// rewrites that look at none of them.
struct RewriteContext {
  Mesh mesh;
  const DeviceProfile* device = nullptr;
  const FrameworkRules* framework = nullptr;
  const PrecisionRules* precision = nullptr;
};

}  // namespace tidemark
