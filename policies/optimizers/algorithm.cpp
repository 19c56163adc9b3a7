#include "policies/optimizers/algorithm.hpp"

#include <algorithm>
#include <utility>

namespace tidemark {

using enum OptimizerTensor;

void OptimizerKernels::add(std::string_view name, OptimizerTensors reads, OptimizerTensors writes,
                           double flops) {
  std::replace(reads.begin(), reads.end(), kGradient, gradient_);
  std::replace(writes.begin(), writes.end(), kGradient, gradient_);
  list_.push_back({name, std::move(reads), std::move(writes), flops});
}

void add_fused_update(OptimizerKernels& kernels) {
  kernels.add("fused", {kGradient, kWeights}, {kWeights, kParameter}, 3);
}

void add_fused_moment_update(OptimizerKernels& kernels) {
  kernels.add("fused", {kGradient, kWeights, kFirstMoment}, {kWeights, kFirstMoment, kParameter},
              5);
}

}  // namespace tidemark
