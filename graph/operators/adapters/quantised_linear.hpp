// Linear layers whose weight is kept as codes.
#pragma once

#include "graph/ir/operator_family.hpp"

namespace tidemark {

// Inputs: x, the codes, a bias (optional), scales and tables of the format. Attributes `format`,
// `library` and `block` (quantised_formats.hpp).
[[nodiscard]] const OperatorFamily& quantised_linear_family();

}  // namespace tidemark
