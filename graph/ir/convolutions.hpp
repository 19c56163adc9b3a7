// Tells which kernels are convolutions. A transposed convolution runs the kernels of an ordinary
// one the other way round: its forward is of class kConvolutionBackwardData.
#pragma once

#include "graph/ir/work.hpp"

namespace tidemark {

// A dense convolution has one filter over all channels, or few groups of them.
[[nodiscard]] constexpr bool is_dense_convolution(OperatorClass c) {
  return c == OperatorClass::kConvolution || c == OperatorClass::kConvolutionBackwardData ||
         c == OperatorClass::kConvolutionBackwardWeight;
}

// Tells convolutions of any kind, forward or backward.
[[nodiscard]] constexpr bool is_convolution(OperatorClass c) {
  return is_dense_convolution(c) || c == OperatorClass::kDepthwiseConvolution;
}

}  // namespace tidemark
