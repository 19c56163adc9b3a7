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
[[nodiscard]] const OptimizerAlgorithm& paged_adamw_8bit_optimizer();
[[nodiscard]] const OptimizerAlgorithm& adamw_4bit_optimizer();
[[nodiscard]] const OptimizerAlgorithm& adafactor_optimizer();
[[nodiscard]] const OptimizerAlgorithm& adam_mini_optimizer();
[[nodiscard]] const OptimizerAlgorithm& lamb_optimizer();
[[nodiscard]] const OptimizerAlgorithm& lion_optimizer();
[[nodiscard]] const OptimizerAlgorithm& muon_optimizer();
[[nodiscard]] const OptimizerAlgorithm& galore_optimizer();
[[nodiscard]] const OptimizerAlgorithm& apollo_optimizer();
[[nodiscard]] const OptimizerAlgorithm& soap_optimizer();
[[nodiscard]] const OptimizerAlgorithm& shampoo_optimizer();
[[nodiscard]] const OptimizerAlgorithm& adagrad_optimizer();
[[nodiscard]] const OptimizerAlgorithm& rmsprop_optimizer();

// Algorithms of the same names as libraries other than the usual one have them.
[[nodiscard]] const OptimizerAlgorithm& adamw_8bit_torchao();
[[nodiscard]] const OptimizerAlgorithm& adafactor_transformers();

}  // namespace tidemark
