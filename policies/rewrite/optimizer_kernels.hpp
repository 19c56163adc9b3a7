// The kernels of an optimizer's step in one of its implementations.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "graph/core/units.hpp"
#include "graph/ir/tensor.hpp"
#include "graph/operators/framework.hpp"
#include "policies/optimizers/spec.hpp"

namespace tidemark {

// Returns the kernels in order; with master weights also those that convert between the types,
// unless the implementation converts inside.
[[nodiscard]] std::vector<OptimizerKernel> optimizer_kernels(const OptimizerSpec& spec,
                                                             OptimizerImplementation implementation,
                                                             const FrameworkRules& rules,
                                                             bool master_weights);

[[nodiscard]] LoopTemporaries loop_temporaries(const OptimizerSpec& spec,
                                               const FrameworkRules& rules, const Shape& shape);

// Returns the CUDA launches of one multi_tensor_apply over tensors of these lengths, `lists`
// tensors at a time.
[[nodiscard]] int foreach_launches(std::span<const Elements> elements, std::size_t lists);

}  // namespace tidemark
