// The optimizers that Tidemark knows.
#pragma once

#include "policies/optimizers/algorithm.hpp"

namespace tidemark {

[[nodiscard]] const OptimizerAlgorithm& sgd_optimizer();
[[nodiscard]] const OptimizerAlgorithm& momentum_optimizer();
[[nodiscard]] const OptimizerAlgorithm& nesterov_optimizer();
[[nodiscard]] const OptimizerAlgorithm& adam_optimizer();
[[nodiscard]] const OptimizerAlgorithm& adamw_optimizer();
[[nodiscard]] const OptimizerAlgorithm& adamw_8bit_optimizer();
[[nodiscard]] const OptimizerAlgorithm& adafactor_optimizer();
[[nodiscard]] const OptimizerAlgorithm& lion_optimizer();
[[nodiscard]] const OptimizerAlgorithm& muon_optimizer();
[[nodiscard]] const OptimizerAlgorithm& adagrad_optimizer();
[[nodiscard]] const OptimizerAlgorithm& rmsprop_optimizer();

}  // namespace tidemark
