#include "policies/rewrite/optimizer_kernels.hpp"

#include <algorithm>
#include <array>

namespace tidemark {
namespace optimizer_kernels_detail {
namespace {

// aten/src/ATen/native/cuda/MultiTensorApply.cuh
constexpr std::int64_t kChunkElements = 65536;
constexpr std::int64_t kMaxBlocks = 320;
constexpr std::array<int, 5> kMaxTensors = {110, 64, 48, 36, 30};  // by number of lists

}  // namespace
}  // namespace optimizer_kernels_detail

std::vector<OptimizerKernel> optimizer_kernels(const OptimizerSpec& spec,
                                               OptimizerImplementation implementation,
                                               const FrameworkRules& rules, bool master_weights) {
  const OptimizerAlgorithm& algorithm = *spec.kind;
  OptimizerKernels kernels;
  if (implementation == OptimizerImplementation::kFused) {
    if (algorithm.add_fused != nullptr) {
      algorithm.add_fused(spec, kernels);
    } else {
      add_fused_update(kernels);
    }
    return kernels.take();
  }
  if (master_weights) {
    kernels.add("convert_gradient", {OptimizerTensor::kGradient},
                {OptimizerTensor::kConvertedGradient});
    kernels.read_gradient_from(OptimizerTensor::kConvertedGradient);
  }
  if (algorithm.add_kernels != nullptr) {
    algorithm.add_kernels(spec, implementation, rules, kernels);
  }
  if (master_weights) {
    kernels.add("copy_to_parameter", {OptimizerTensor::kWeights}, {OptimizerTensor::kParameter});
  }
  return kernels.take();
}

LoopTemporaries loop_temporaries(const OptimizerSpec& spec, const FrameworkRules& rules,
                                 const Shape& shape) {
  const OptimizerAlgorithm& algorithm = *spec.kind;
  if (algorithm.loop_temporaries == nullptr) return {};
  return algorithm.loop_temporaries(spec, rules, shape);
}

// A launch takes as many tensors as its arguments have room for, and at most 320 chunks; a tensor
// cut by the second limit goes on in the next launch.
int foreach_launches(std::span<const Elements> elements, std::size_t lists) {
  const int max_tensors = optimizer_kernels_detail::kMaxTensors.at(
      std::clamp<std::size_t>(lists, 1, optimizer_kernels_detail::kMaxTensors.size()) - 1);
  std::int64_t launches = 0;
  std::int64_t blocks = 0;
  int tensors = 0;
  for (const Elements each : elements) {
    blocks += (each.count + optimizer_kernels_detail::kChunkElements - 1) /
              optimizer_kernels_detail::kChunkElements;
    ++tensors;
    if (blocks >= optimizer_kernels_detail::kMaxBlocks) {
      launches += blocks / optimizer_kernels_detail::kMaxBlocks;
      blocks %= optimizer_kernels_detail::kMaxBlocks;
      tensors = blocks > 0 ? 1 : 0;
    }
    if (tensors == max_tensors) {
      ++launches;
      blocks = 0;
      tensors = 0;
    }
  }
  return static_cast<int>(launches) + (tensors > 0 ? 1 : 0);
}

}  // namespace tidemark
