// Saved tensors that autograd unpacks in the backward of a checkpointed segment.
#pragma once

#include <vector>

#include "policies/plan/policy.hpp"

namespace tidemark {

// Returns the operators of a segment's backward that read something that a node of autograd
// unpacks, be it a weight. None where a compiler has made kernels of the nodes.
[[nodiscard]] std::vector<Position> unpacked_in_backward(const PolicyContext& context,
                                                         const BlockRegion& segment);

}  // namespace tidemark
