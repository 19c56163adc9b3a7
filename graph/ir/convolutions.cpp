#include "graph/ir/convolutions.hpp"

#include <algorithm>

namespace tidemark {

void describe_convolution(Work& work, const ConvolutionShape& shape) {
  const std::int64_t groups = std::max<std::int64_t>(1, shape.groups);
  const std::int64_t channels = shape.channels / groups;
  const std::int64_t filters = shape.filters / groups;
  const std::int64_t outputs = shape.batch * shape.output_places;
  if (work.op_class == OperatorClass::kConvolutionBackwardData) {
    work.extent = {shape.batch * shape.input_places, channels,
                   std::max<std::int64_t>(1, filters * shape.window / shape.stride), groups};
  } else if (work.op_class == OperatorClass::kConvolutionBackwardWeight) {
    work.extent = {filters, channels * shape.window, outputs, groups};
  } else {
    work.extent = {outputs, filters, channels * shape.window, groups};
  }
  work.window = {.channels = channels,
                 .groups = groups,
                 .pointwise = shape.window == 1,
                 .strided = shape.stride > 1,
                 .three_by_three = shape.window == 9 && shape.square && shape.stride == 1};
}

}  // namespace tidemark
