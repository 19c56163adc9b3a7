// The kernels of an optimizer's step as data: what each reads and writes per element.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/autodiff/framework.hpp"
#include "graph/core/units.hpp"
#include "graph/ir/tensor.hpp"
#include "policies/rewrite/optimizer_spec.hpp"

namespace tidemark {

// One kernel. Each letter is a tensor of the parameter's length:
//   w  the weights that are updated: fp32 masters, or the parameter itself
//   p  the 2-byte parameter beside its master
//   g  .grad                          c  the same in the masters' type
//   d  gradient plus decayed weights
//   m  v  moments                     s  the step counter, one number
//   o  the mean of gradients (rmsprop, centered) or the largest second moment (amsgrad)
//   k  l  scales of 8-bit moments     r  q  n  rows, columns and the size of Adafactor's moments
//   t  u  temporaries
struct OptimizerKernel {
  std::string_view name;
  std::string reads;
  std::string writes;
  double flops = 1;  // per element
};

// The kernels in order. `converts` asks for c where the implementation does not convert inside.
[[nodiscard]] std::vector<OptimizerKernel> optimizer_kernels(const OptimizerSpec& spec,
                                                             OptimizerImplementation implementation,
                                                             const FrameworkRules& rules,
                                                             bool master_weights);

// What one iteration of a loop implementation holds for its parameter beside state and gradient.
struct LoopTemporaries {
  int inside = 0;         // tensors that live inside the iteration
  bool outlives = false;  // one more, a variable that lives until the next iteration replaces it
  Bytes scalars;          // constants inside one kernel
  Bytes after;            // beside `inside` when the variable of the last iteration is gone
};
[[nodiscard]] LoopTemporaries loop_temporaries(const OptimizerSpec& spec,
                                               const FrameworkRules& rules, const Shape& shape);

// CUDA launches of one multi_tensor_apply over tensors of these lengths, `lists` tensors at a time.
[[nodiscard]] int foreach_launches(std::span<const std::int64_t> elements, std::size_t lists);

}  // namespace tidemark
