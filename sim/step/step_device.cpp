#include "sim/step/step_device.hpp"

#include <algorithm>

#include "hwprofiles/communicators.hpp"
#include "policies/rewrite/precision.hpp"

namespace tidemark {

LibraryWorkspaces libraries_of(const StepSpec& spec) {
  if (!spec.training.framework->library_workspaces) return {};
  const FrameworkProfile& figures = spec.device.framework;
  const bool cached = spec.training.framework->caches_cublas_workspace;
  return {cached ? figures.cublas_workspace : Bytes(0), figures.cudnn_filter_copies};
}

DeviceProfile device_of(const StepSpec& spec) {
  DeviceProfile device = spec.device;
  const LibraryWorkspaces libraries = libraries_of(spec);
  device.framework.cublas_workspace = libraries.matmul;
  device.framework.cudnn_filter_copies = libraries.convolution;
  return device;
}

Bytes process_overhead(const StepSpec& spec) {
  if (!spec.allocator->traits().has_overhead) return Bytes(0);
  const FrameworkProfile& framework = spec.device.framework;
  return framework.context + communication_buffers(spec.mesh, spec.device, gather_ranks(spec));
}

int gather_ranks(const StepSpec& spec) {
  int ranks = 1;
  for (const TrainingRewrite* rewrite : policies_of<TrainingRewrite>(spec))
    ranks = std::max(ranks, rewrite->gather_ranks());
  return ranks;
}

std::optional<DType> gathered_type(const StepSpec& spec) {
  if (spec.mesh.replicas() == 1) return std::nullopt;
  for (const TrainingRewrite* rewrite : policies_of<TrainingRewrite>(spec)) {
    if (rewrite->compute_dtype()) return rewrite->compute_dtype();
  }
  return std::nullopt;
}

DType compute_type(const StepSpec& spec) {
  const PrecisionRules& rules = rules_of(spec.training.precision);
  if (const std::optional<DType> gathered = gathered_type(spec)) return *gathered;
  if (rules.tf32) return DType::kTf32;
  if (rules.fp8) return DType::kFloat8;
  return rules.autocast.value_or(rules.model);
}

}  // namespace tidemark
