// training.optimizer: an optimizer and its settings.
#pragma once

#include <optional>
#include <string_view>

#include "graph/core/decoder.hpp"
#include "graph/operators/framework.hpp"
#include "policies/optimizers/algorithm.hpp"
#include "policies/optimizers/entries.hpp"

namespace tidemark {

struct OptimizerSpec {
  OptimizerKind kind = &adamw_optimizer();
  // nullopt: fused with master weights, otherwise the framework's default; the nearest existing
  // one.
  std::optional<OptimizerImplementation> implementation;
  double weight_decay = 0.01;
  double momentum = 0;    // momentum of sgd's variants, rmsprop and muon
  bool amsgrad = false;   // adam, adamw: divides by the largest second moment so far
  bool centered = false;  // rmsprop: divides by the deviation rather than by the root mean square
  // adamw on 16-bit weights without masters: keeps what rounding loses, or rounds at random.
  bool kahan = false;
  bool stochastic_rounding = false;
  bool embeddings_in_fp32 = false;  // adamw_8bit: moments of embeddings are fp32
  int rank = 0;                     // galore, apollo
  int refresh = 0;  // steps between refreshes of projectors, bases and inverse roots
};

[[nodiscard]] std::string_view name_of(OptimizerKind kind);
[[nodiscard]] std::string_view name_of(OptimizerImplementation implementation);
// Returns one line: the optimizer's state in bytes per parameter and where the algorithm is
// published.
[[nodiscard]] std::string_view summary_of(OptimizerKind kind);
[[nodiscard]] bool has_implementation(OptimizerKind kind, OptimizerImplementation implementation);

// Returns the settings that an optimizer has unless a scenario says otherwise.
[[nodiscard]] OptimizerSpec optimizer_defaults(OptimizerKind kind);
// Reads the key `optimizer` of `training`: a name, or {name, implementation, weight_decay,
// momentum, amsgrad, centered, kahan, stochastic_rounding, embeddings, rank, refresh}; adamw when
// absent. An implementation is a form or a library. Weight decay defaults to that of the
// optimizer's own code: 0.01 for adamw and its kin, 0.1 for muon, 0 otherwise; momentum to 0.9 for
// momentum and nesterov and 0.95 for muon; sgd with a momentum is momentum. Throws UserError.
[[nodiscard]] OptimizerSpec decode_optimizer(const Decoder& training);
[[nodiscard]] OptimizerImplementation implementation_of(const OptimizerSpec& spec,
                                                        const FrameworkRules& rules,
                                                        bool master_weights);

// Adds gradient + weight_decay * weights, which later kernels read.
void add_decayed_gradient(const OptimizerSpec& spec, OptimizerKernels& kernels);
// Adds weight_decay * weights: to the gradient in place where the framework's foreach form does so
// (all optimizers but SGD), else as add_decayed_gradient() does.
void add_decay(const OptimizerSpec& spec, OptimizerImplementation form, const FrameworkRules& rules,
               OptimizerKernels& kernels);

}  // namespace tidemark
