// Geometry of kernels that slide over the trailing axes: convolutions and pooling.
#pragma once

#include "graph/operators/family.hpp"

namespace tidemark {

// Reads an attribute that is one number for all spatial axes or a list with one number per axis.
[[nodiscard]] std::int64_t per_axis(const Attributes& attributes, std::string_view name, int axis,
                                    std::int64_t fallback);

// The places of a kernel along one spatial axis of an input:
//
//   padding | input          | padding        padded
//   <-- reach -->                             dilation * (kernel - 1) + 1
//        <-- reach -->                        a stride further
struct Window {
  std::int64_t kernel = 1;
  std::int64_t stride = 1;
  std::int64_t padding = 0;
  std::int64_t padded = 0;
  std::int64_t reach = 1;

  // Returns how far the window moves from its first place to the last one.
  [[nodiscard]] std::int64_t path() const { return padded - reach; }
  [[nodiscard]] std::int64_t places() const { return path() / stride + 1; }
};
// Reads stride, padding and dilation along a spatial axis of the first input. Fails where one of
// them is out of range, or the kernel does not fit into the padded input.
[[nodiscard]] Window window_along(const Inference& inference, int axis, std::int64_t kernel,
                                  std::int64_t default_stride = 1);

// Fails unless the tensor is [batch, channels, spatial...] with that many spatial axes.
void require_spatial(const Inference& inference, const Tensor& x, int axes);

// Fails unless the weight of a convolution has the input's number of axes and its type.
void require_filters(const Inference& inference, const Tensor& x, const Tensor& weight);

// Returns the strides of an output of `shape`: channels innermost when the input's are
// (channels_last), row-major otherwise.
[[nodiscard]] Strides channel_order(const Shape& shape, const Tensor& input);

// Returns the operand whose order the result of a convolution has: its kernels run in channels_last
// where the input or the filters are (PyTorch's cudnn_conv_suggest_memory_format and
// mkldnn_conv_use_channels_last).
[[nodiscard]] const Tensor& leading_operand(const Tensor& x, const Tensor& weight);

// Returns the bytes of the copy that a convolution makes of `operand` to have it in the order of
// `leading`, which is channels_last; 0 where it makes none.
[[nodiscard]] Bytes reordered_bytes(const Tensor& operand, const Tensor& leading);

// Returns the incoming gradient in the memory order of the output: the operator copies
// any other for its kernels.
[[nodiscard]] Tensor ordered_gradient(BackwardBuilder& b);

}  // namespace tidemark
