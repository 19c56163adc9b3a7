// training.optimizer: the optimizers by name, what they can be told and in which forms they exist.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "graph/autodiff/framework.hpp"
#include "graph/core/decoder.hpp"

namespace tidemark {

enum class OptimizerKind : std::uint8_t {
  kSgd,
  kMomentum,
  kNesterov,
  kAdam,
  kAdamW,
  kAdamW8bit,
  kAdafactor,
  kLion,
  kMuon,
  kAdagrad,
  kRmsprop,
};

enum class OptimizerImplementation : std::uint8_t {
  kLoop,     // one parameter after the other: torch.optim with foreach=False
  kForeach,  // each kernel over all parameters: foreach=True
  kFused,    // everything in one kernel: fused=True, Apex and DeepSpeed FusedAdam
};

struct OptimizerSpec {
  OptimizerKind kind = OptimizerKind::kAdamW;
  // nullopt: fused with master weights, otherwise the framework's default; the nearest to it that
  // exists.
  std::optional<OptimizerImplementation> implementation;
  double weight_decay = 0.01;
  double momentum = 0;    // of sgd's variants, rmsprop and muon
  bool amsgrad = false;   // adam, adamw: divides by the largest second moment so far
  bool centered = false;  // rmsprop: divides by the deviation rather than by the root mean square
};

// The names of training.optimizer, in the order of OptimizerKind.
[[nodiscard]] std::span<const std::string_view> optimizer_names();
[[nodiscard]] std::string_view name_of(OptimizerKind kind);
[[nodiscard]] std::string_view name_of(OptimizerImplementation implementation);
// One line: its state in bytes per parameter and where the algorithm is published.
[[nodiscard]] std::string_view summary_of(OptimizerKind kind);
[[nodiscard]] bool is_adam(OptimizerKind kind);
[[nodiscard]] bool has_implementation(OptimizerKind kind, OptimizerImplementation implementation);

// Key `optimizer` of `training`: a name, or {name, implementation, weight_decay, momentum, amsgrad,
// centered}; adamw when absent. Weight decay defaults to that of the optimizer's own code: 0.01 for
// adamw and adamw_8bit, 0.1 for muon, 0 otherwise; momentum to 0.9 for momentum and nesterov and
// 0.95 for muon; sgd with a momentum is momentum. Throws UserError.
[[nodiscard]] OptimizerSpec decode_optimizer(const Decoder& training);
[[nodiscard]] OptimizerImplementation implementation_of(const OptimizerSpec& spec,
                                                        const FrameworkRules& rules,
                                                        bool master_weights);

}  // namespace tidemark
