// The kernels of an optimizer's step as data: what each reads and writes per element.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/autodiff/framework.hpp"
#include "graph/core/decoder.hpp"
#include "graph/core/units.hpp"

namespace tidemark {

enum class OptimizerKind : std::uint8_t { kSgd, kMomentum, kNesterov, kAdam, kAdamW };

enum class OptimizerImplementation : std::uint8_t {
  kLoop,     // one parameter after the other: torch.optim with foreach=False
  kForeach,  // each kernel over all parameters: foreach=True
  kFused,    // everything in one kernel: fused=True, Apex and DeepSpeed FusedAdam
};

struct OptimizerSpec {
  OptimizerKind kind = OptimizerKind::kAdamW;
  // nullopt: fused with master weights, otherwise the framework's default.
  std::optional<OptimizerImplementation> implementation;
  double weight_decay = 0.01;
  double momentum = 0;  // of sgd's variants
};

// The names of training.optimizer that are built, in the order of OptimizerKind.
[[nodiscard]] std::span<const std::string_view> optimizer_names();
[[nodiscard]] std::string_view name_of(OptimizerKind kind);
[[nodiscard]] bool is_adam(OptimizerKind kind);

// Key `optimizer` of `training`: a name, or {name, implementation, weight_decay, momentum}; adamw
// when absent. Weight decay defaults to 0.01 for adamw and 0 otherwise, momentum to 0.9 for
// momentum and nesterov; sgd with a momentum is momentum. Throws UserError.
[[nodiscard]] OptimizerSpec decode_optimizer(const Decoder& training);
[[nodiscard]] OptimizerImplementation implementation_of(const OptimizerSpec& spec,
                                                        const FrameworkRules& rules,
                                                        bool master_weights);

// One kernel. Each letter is a tensor of the parameter's length:
//   w  the weights that are updated: fp32 masters, or the parameter itself
//   p  the 2-byte parameter beside its master
//   g  .grad                          c  the same in the masters' type
//   d  gradient plus decayed weights
//   m  v  moments                     s  the step counter, one number
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
};
[[nodiscard]] LoopTemporaries loop_temporaries(const OptimizerSpec& spec,
                                               const FrameworkRules& rules);

// CUDA launches of one multi_tensor_apply over tensors of these lengths, `lists` tensors at a time.
[[nodiscard]] int foreach_launches(std::span<const std::int64_t> elements, std::size_t lists);

}  // namespace tidemark
