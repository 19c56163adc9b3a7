#include "hwprofiles/measured/operator_work.hpp"

#include <algorithm>

namespace tidemark {
namespace operator_work_detail {
namespace {

double real(std::int64_t count) {
  return static_cast<double>(count);
}

}  // namespace
}  // namespace operator_work_detail

Work product_work(DType type, std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t batch) {
  using operator_work_detail::real;
  const DType result = type == DType::kFloat8 ? DType::kBFloat16 : type;
  return {.op_class = OperatorClass::kMatmul,
          .dtype = type,
          .flops = Flops(2.0 * real(m) * real(n) * real(k) * real(batch)),
          .read = bytes_of(type, Elements((m * k + k * n) * batch)),
          .written = bytes_of(result, Elements(m * n * batch)),
          .extent = {m, n, k, batch}};
}

Work convolution_work(DType type, OperatorClass direction, const ConvolutionShape& shape) {
  using operator_work_detail::real;
  const std::int64_t channels = shape.channels / std::max<std::int64_t>(1, shape.groups);
  const Bytes input = bytes_of(type, Elements(shape.batch * shape.channels * shape.input_places));
  const Bytes output = bytes_of(type, Elements(shape.batch * shape.filters * shape.output_places));
  const Bytes weight = bytes_of(type, Elements(shape.filters * channels * shape.window));
  const bool data = direction == OperatorClass::kConvolutionBackwardData;
  const bool weights = direction == OperatorClass::kConvolutionBackwardWeight;
  const bool depthwise = shape.groups > 1 && channels == 1;
  Work work{.op_class = depthwise ? OperatorClass::kDepthwiseConvolution : direction,
            .dtype = type,
            .flops = Flops(2.0 * real(shape.batch) * real(shape.filters) *
                           real(shape.output_places) * real(channels) * real(shape.window))};
  work.written = data ? input : weights ? weight : output;
  work.read = input + output + weight - work.written;
  if (!depthwise) describe_convolution(work, shape);
  return work;
}

Work traffic_work(DType type, OperatorClass op_class, Elements read, Elements written) {
  Work work;
  work.op_class = op_class;
  work.dtype = type;
  work.read = bytes_of(type, read);
  work.written = bytes_of(type, written);
  return work;
}

Work fused_attention_work(DType type, double tokens, std::int64_t length, std::int64_t width,
                          bool causal, bool backward) {
  using operator_work_detail::real;
  Work work;
  work.op_class = OperatorClass::kAttention;
  work.dtype = type;
  work.flops = Flops(4.0 * tokens * real(length) * real(width) * (causal ? 0.5 : 1.0) *
                     (backward ? 2.5 : 1.0));
  work.extent = {length, length, width,
                 (causal ? kAttentionCausal : 0) | (backward ? kAttentionBackward : 0)};
  return work;
}

}  // namespace tidemark
