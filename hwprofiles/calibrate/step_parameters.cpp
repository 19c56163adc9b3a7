#include <fmt/format.h>

#include "graph/ir/convolutions.hpp"
#include "hwprofiles/calibrate/parameter_parts.hpp"

namespace tidemark {
namespace step_parameters_detail {
namespace {

// A class has a part of each step only, and steps are few: their fit stays closer to the profile
// than that of operators.
constexpr double kSpread = 0.15;

void add_grouped_channels_last(std::vector<ProfileParameter>& found) {
  const auto add = [&](const char* key, double GroupedShare::*figure, double lower, double upper) {
    found.push_back(
        {.path = fmt::format("efficiency.convolution.grouped_channels_last.{}", key),
         .share = [figure](DeviceProfile& p) -> double& { return p.grouped_channels_last.*figure; },
         .time = {},
         .lower = lower,
         .upper = upper});
  };
  add("share", &GroupedShare::share, 0.01, 1.5);
  add("exponent", &GroupedShare::exponent, 0.1, 2);
  add("wide", &GroupedShare::wide, 0.05, 1);
}

}  // namespace
}  // namespace step_parameters_detail

void add_bandwidth(std::vector<ProfileParameter>& found, OperatorClass op_class, double most) {
  found.push_back({.path = fmt::format("efficiency.bandwidth.{}", name_of(op_class)),
                   .share = [op_class](DeviceProfile& p) -> double& {
                     return p.bandwidth[static_cast<std::size_t>(op_class)];
                   },
                   .time = {},
                   .lower = 0.15,
                   .upper = most});
}

std::vector<ProfileParameter> step_parameters(const DeviceProfile& profile, Kernels kernels) {
  std::vector<ProfileParameter> found;
  const auto tensor = [&](const Work& w) { return on_tensor_cores(profile, w); };
  const auto of_class = [&](OperatorClass c) {
    return some(kernels, [c](const Work& w) { return w.op_class == c; });
  };
  for (const ConvolutionDirection& direction : kConvolutionDirections) {
    if (!of_class(direction.op_class)) continue;
    const bool on_tensor =
        some(kernels, [&](const Work& w) { return w.op_class == direction.op_class && tensor(w); });
    const auto figure = on_tensor ? &ConvolutionShare::tensor_cores : &ConvolutionShare::cuda_cores;
    found.push_back({.path = fmt::format("efficiency.convolution.{}.{}", direction.name,
                                         on_tensor ? "tensor_cores" : "cuda_cores"),
                     .share = [shares = direction.shares, figure](DeviceProfile& p) -> double& {
                       return (p.*shares).*figure;
                     },
                     .time = {},
                     .lower = 0.05,
                     .upper = 1.3});
    add_bandwidth(found, direction.op_class, 1.0);
  }
  const auto grouped = [&](const Work& w) {
    return is_dense_convolution(w.op_class) && w.window.groups > 1 && tensor(w);
  };
  if (some(kernels, [&](const Work& w) { return grouped(w) && w.channels_last; })) {
    step_parameters_detail::add_grouped_channels_last(found);
  }
  if (some(kernels, [&](const Work& w) { return grouped(w) && !w.channels_last; })) {
    found.push_back({.path = "efficiency.convolution.grouped",
                     .share = [](DeviceProfile& p) -> double& { return p.grouped; },
                     .time = {},
                     .lower = 0.1,
                     .upper = 1.5});
  }
  const bool copies = some(kernels, [&](const Work& w) {
    return is_dense_convolution(w.op_class) && tensor(w) && !w.channels_last;
  });
  if (copies && profile.convolution_layout_copies > 0) {
    found.push_back(
        {.path = "efficiency.convolution.layout_copies",
         .share = [](DeviceProfile& p) -> double& { return p.convolution_layout_copies; },
         .time = {},
         .lower = 0.02,
         .upper = 3,
         .spread = 0.7});
  }
  const auto half = [](const Work& w) {
    return w.op_class == OperatorClass::kMatmul && w.dtype == DType::kFloat16;
  };
  if (some(kernels, half)) {
    found.push_back({.path = "efficiency.matmul.fp16",
                     .share = [](DeviceProfile& p) -> double& {
                       return p.matrix[static_cast<std::size_t>(DType::kFloat16)].matmul_share;
                     },
                     .time = {},
                     .lower = 0.2,
                     .upper = 1.3});
  }
  for (const OperatorClass c : {OperatorClass::kDepthwiseConvolution, OperatorClass::kNormalization,
                                OperatorClass::kElementwise, OperatorClass::kReduction,
                                OperatorClass::kPooling, OperatorClass::kSoftmax}) {
    if (of_class(c)) add_bandwidth(found, c, 1.6);
  }
  const bool last = some(kernels, [](const Work& w) {
    return w.op_class == OperatorClass::kNormalization && w.channels_last;
  });
  if (last) {
    found.push_back(
        {.path = "efficiency.bandwidth.normalization_channels_last",
         .share = [](DeviceProfile& p) -> double& { return p.normalization_channels_last; },
         .time = {},
         .lower = 0.15,
         .upper = 1.6});
  }
  for (ProfileParameter& parameter : found)
    parameter.spread = step_parameters_detail::kSpread;
  return found;
}

}  // namespace tidemark
