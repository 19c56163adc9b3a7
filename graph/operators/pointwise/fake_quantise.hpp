// Rounding to a grid of few values while training, for quantisation-aware training.
#pragma once

#include "graph/ir/operator_family.hpp"

namespace tidemark {

// Inputs: a tensor, and the state of its observer. Attribute `channels`: one scale per row.
[[nodiscard]] const OperatorFamily& fake_quantise_family();

}  // namespace tidemark
