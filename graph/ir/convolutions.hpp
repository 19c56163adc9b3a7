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

// Extents of a convolution; places are the positions of one channel of one sample.
struct ConvolutionShape {
  std::int64_t batch = 1;
  std::int64_t channels = 1;  // channels of the input
  std::int64_t filters = 1;   // channels of the output
  std::int64_t input_places = 1;
  std::int64_t output_places = 1;
  std::int64_t window = 1;  // elements of one filter per channel: 9 for 3x3
  std::int64_t stride = 1;  // product over the axes: 4 for steps of two in both directions
  std::int64_t groups = 1;
  bool square = true;  // the window has two axes of equal extent
};

// Fills `extent` and `window` of a dense convolution's work, which has its class already. By
// direction, the convolution is this product for each group (implicit GEMM):
//                    m                       n                    k
//   forward          batch * output places   filters              channels * window
//   data gradient    batch * input places    channels             filters * window / stride
//   weight gradient  filters                 channels * window    batch * output places
void describe_convolution(Work& work, const ConvolutionShape& shape);

}  // namespace tidemark
