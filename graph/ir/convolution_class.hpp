#pragma once
// Which kernels are convolutions: those that cuDNN may give a workspace.

#include "graph/ir/work.hpp"

namespace tidemark {

constexpr bool is_convolution(OperatorClass op_class) {
  return op_class == OperatorClass::kConvolution ||
         op_class == OperatorClass::kDepthwiseConvolution;
}

}  // namespace tidemark
