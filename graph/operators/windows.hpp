// Geometry of kernels that slide over the trailing axes: convolutions and pooling.
#pragma once

#include "graph/operators/family.hpp"

namespace tidemark {

// Reads an attribute that is one number for all spatial axes or a list with one number per axis.
[[nodiscard]] std::int64_t per_axis(const Attributes& attributes, std::string_view name, int axis,
                                    std::int64_t fallback);

// Fails unless the tensor is [batch, channels, spatial...] with that many spatial axes.
void require_spatial(const Inference& inference, const Tensor& x, int axes);

// Fails unless the weight of a convolution has the input's number of axes and its type.
void require_filters(const Inference& inference, const Tensor& x, const Tensor& weight);

// Returns the strides of an output of `shape`: channels innermost when the input's are
// (channels_last), row-major otherwise.
[[nodiscard]] Strides channel_order(const Shape& shape, const Tensor& input);

// Returns the incoming gradient in the memory order of the output: the operator copies
// any other for its kernels.
[[nodiscard]] Tensor ordered_gradient(BackwardBuilder& b);

}  // namespace tidemark
