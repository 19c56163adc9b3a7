#include "hwprofiles/calibrate/parameters.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <set>
#include <string_view>

#include <fmt/format.h>

#include "hwprofiles/calibrate/parameter_parts.hpp"

namespace tidemark {
namespace parameters_detail {
namespace {

constexpr double kMicrosecond = 1e-6;
constexpr double kNanosecond = 1e-9;

// The prior's spread for the effect of a window's shape, which depends less on the device than on
// cuDNN's algorithms.
constexpr double kShapeSpread = 0.15;

void add_tile(std::vector<ProfileParameter>& found, const char* cores,
              TileModel DeviceProfile::*tile) {
  const std::string path = fmt::format("efficiency.tile.{}.", cores);
  found.push_back(
      {.path = path + "small_tile_exponent",
       .share = [tile](DeviceProfile& p) -> double& { return (p.*tile).small_tile_exponent; },
       .time = {},
       .lower = 0.02,
       .upper = 1.5,
       .spread = 0.7});
  found.push_back({.path = path + "prologue",
                   .share = [tile](DeviceProfile& p) -> double& { return (p.*tile).prologue; },
                   .time = {},
                   .lower = 1,
                   .upper = 400,
                   .spread = 0.7});
}

std::vector<ProfileParameter> matmul_parameters(const DeviceProfile& profile, Kernels kernels) {
  std::vector<ProfileParameter> found;
  std::set<DType> types;
  for (const Work& work : kernels)
    types.insert(matrix_type(profile, work.dtype));
  found.reserve(types.size());
  for (const DType type : types) {
    found.push_back({.path = fmt::format("efficiency.matmul.{}", name_of(type)),
                     .share = [type](DeviceProfile& p) -> double& {
                       return p.matrix[static_cast<std::size_t>(type)].matmul_share;
                     },
                     .time = {},
                     .lower = 0.2,
                     .upper = 1.2});
  }
  struct Tiles {
    bool tensor_cores;
    bool batched;
    const char* name;
    TileModel DeviceProfile::*tile;
    double DeviceProfile::*share;
  };
  for (const Tiles& tiles :
       {Tiles{true, false, "tensor_cores", &DeviceProfile::tensor_core_tile, nullptr},
        Tiles{false, false, "cuda_cores", &DeviceProfile::cuda_core_tile, nullptr},
        Tiles{true, true, "batched_tensor_cores", &DeviceProfile::batched_tensor_core_tile,
              &DeviceProfile::batched_tensor_core_share},
        Tiles{false, true, "batched_cuda_cores", &DeviceProfile::batched_cuda_core_tile,
              &DeviceProfile::batched_cuda_core_share}}) {
    const bool felt = some(kernels, [&](const Work& w) {
      return on_tensor_cores(profile, w) == tiles.tensor_cores &&
             (w.extent[3] > 1) == tiles.batched;
    });
    if (!felt) continue;
    add_tile(found, tiles.name, tiles.tile);
    if (!tiles.batched) {
      found.push_back({.path = fmt::format("efficiency.tile.{}.long_reduction", tiles.name),
                       .share = [tile = tiles.tile](DeviceProfile& p) -> double& {
                         return (p.*tile).long_reduction;
                       },
                       .time = {},
                       .lower = 0.004,
                       .upper = 0.2,
                       .spread = 1.5});
      continue;
    }
    found.push_back(
        {.path = fmt::format("efficiency.tile.{}.share", tiles.name),
         .share = [share = tiles.share](DeviceProfile& p) -> double& { return p.*share; },
         .time = {},
         .lower = 0.3,
         .upper = 1.5});
  }
  add_bandwidth(found, OperatorClass::kMatmul, 1.0);
  found.push_back({.path = "launch.matmul",
                   .share = {},
                   .time = [](DeviceProfile& p) -> Duration& { return p.launch.matmul; },
                   .lower = 0.1 * kMicrosecond,
                   .upper = 40 * kMicrosecond,
                   .spread = 1});
  return found;
}

std::vector<ProfileParameter> convolution_parameters(const DeviceProfile& profile, Kernels kernels,
                                                     const ConvolutionDirection& direction) {
  std::vector<ProfileParameter> found;
  const auto tensor = [&](const Work& w) { return on_tensor_cores(profile, w); };
  const auto cuda = [&](const Work& w) { return !on_tensor_cores(profile, w); };
  const auto add = [&](const char* key, double ConvolutionShare::*figure, double lower,
                       double upper, double spread = 0.3) {
    found.push_back({.path = fmt::format("efficiency.convolution.{}.{}", direction.name, key),
                     .share = [shares = direction.shares, figure](DeviceProfile& p) -> double& {
                       return (p.*shares).*figure;
                     },
                     .time = {},
                     .lower = lower,
                     .upper = upper,
                     .spread = spread});
  };
  if (some(kernels, tensor)) add("tensor_cores", &ConvolutionShare::tensor_cores, 0.05, 1.1);
  if (some(kernels, cuda)) {
    add("cuda_cores", &ConvolutionShare::cuda_cores, 0.05, 2);
    if (some(kernels, [&](const Work& w) { return cuda(w) && w.window.pointwise; }))
      add("pointwise", &ConvolutionShare::pointwise, 0.3, 1.5, kShapeSpread);
    if (some(kernels, [&](const Work& w) { return cuda(w) && w.window.three_by_three; }))
      add("winograd", &ConvolutionShare::winograd, 0.8, 4, kShapeSpread);
  }
  if (direction.op_class == OperatorClass::kConvolutionBackwardData &&
      some(kernels, [](const Work& w) { return w.window.strided; }))
    add("strided", &ConvolutionShare::strided, 0.25, 2, kShapeSpread);
  if (some(kernels, [&](const Work& w) { return tensor(w) && w.window.channels < 32; }))
    add("narrow", &ConvolutionShare::narrow, 0.05, 1, kShapeSpread);
  add_bandwidth(found, direction.op_class, 1.0);
  found.push_back({.path = direction.op_class == OperatorClass::kConvolution
                               ? std::string("launch.convolution")
                               : fmt::format("launch.convolution_{}", direction.name),
                   .share = {},
                   .time = [launch = direction.launch](DeviceProfile& p) -> Duration& {
                     return p.launch.*launch;
                   },
                   .lower = 1 * kMicrosecond,
                   .upper = 60 * kMicrosecond,
                   .spread = 0.7});
  return found;
}

// The two curves between which a width lies are both felt; only exact widths are fitted.
std::vector<ProfileParameter> attention_parameters(const DeviceProfile& profile, Kernels kernels) {
  std::vector<ProfileParameter> found;
  struct Figure {
    const char* name;
    double AttentionCurve::*place;
    bool causal;
    double lower;
    double upper;
  };
  constexpr std::array<Figure, 4> kFigures = {
      {{"share", &AttentionCurve::share, false, 0.05, 1.0},
       {"half_length", &AttentionCurve::half_length, false, 1, 4000},
       {"causal_share", &AttentionCurve::causal_share, true, 0.05, 1.0},
       {"causal_half_length", &AttentionCurve::causal_half_length, true, 1, 8000}}};
  for (const bool backward : {false, true}) {
    const auto curves =
        backward ? &DeviceProfile::attention_backward : &DeviceProfile::attention_forward;
    for (std::size_t i = 0; i < (profile.*curves).size(); ++i) {
      const int width = (profile.*curves)[i].head_width;
      for (const Figure& figure : kFigures) {
        const bool felt = some(kernels, [&](const Work& w) {
          return w.extent[2] == width && ((w.extent[3] & kAttentionBackward) != 0) == backward &&
                 ((w.extent[3] & kAttentionCausal) != 0) == figure.causal;
        });
        if (!felt) continue;
        found.push_back({.path = fmt::format("efficiency.attention.{}.{}.{}",
                                             backward ? "backward" : "forward", width, figure.name),
                         .share = [curves, i, place = figure.place](DeviceProfile& p) -> double& {
                           return (p.*curves)[i].*place;
                         },
                         .time = {},
                         .lower = figure.lower,
                         .upper = figure.upper,
                         .spread = 0.3});
      }
    }
  }
  return found;
}

constexpr std::array<std::string_view, kFitClasses> kNames = {"matmul",
                                                              "convolution forward",
                                                              "convolution backward data",
                                                              "convolution backward weight",
                                                              "depthwise convolution",
                                                              "attention",
                                                              "normalization",
                                                              "softmax",
                                                              "elementwise",
                                                              "training step",
                                                              "other"};

}  // namespace
}  // namespace parameters_detail

std::string_view name_of(FitClass fit_class) {
  return parameters_detail::kNames[static_cast<std::size_t>(fit_class)];
}

FitClass fit_class_of(OperatorClass op_class) {
  switch (op_class) {
    case OperatorClass::kMatmul:
      return FitClass::kMatmul;
    case OperatorClass::kConvolution:
      return FitClass::kConvolutionForward;
    case OperatorClass::kConvolutionBackwardData:
      return FitClass::kConvolutionBackwardData;
    case OperatorClass::kConvolutionBackwardWeight:
      return FitClass::kConvolutionBackwardWeight;
    case OperatorClass::kDepthwiseConvolution:
      return FitClass::kDepthwise;
    case OperatorClass::kAttention:
      return FitClass::kAttention;
    case OperatorClass::kNormalization:
      return FitClass::kNormalization;
    case OperatorClass::kSoftmax:
      return FitClass::kSoftmax;
    case OperatorClass::kElementwise:
      return FitClass::kElementwise;
    default:
      return FitClass::kOther;
  }
}

std::vector<ProfileParameter> parameters_of(FitClass fit_class, const DeviceProfile& profile,
                                            std::span<const Work> kernels) {
  std::vector<ProfileParameter> found;
  switch (fit_class) {
    case FitClass::kMatmul:
      return parameters_detail::matmul_parameters(profile, kernels);
    case FitClass::kConvolutionForward:
    case FitClass::kConvolutionBackwardData:
    case FitClass::kConvolutionBackwardWeight:
      return parameters_detail::convolution_parameters(
          profile, kernels,
          kConvolutionDirections[static_cast<std::size_t>(fit_class) -
                                 static_cast<std::size_t>(FitClass::kConvolutionForward)]);
    case FitClass::kAttention:
      return parameters_detail::attention_parameters(profile, kernels);
    case FitClass::kDepthwise:
      add_bandwidth(found, OperatorClass::kDepthwiseConvolution, 1.2);
      return found;
    case FitClass::kNormalization:
      add_bandwidth(found, OperatorClass::kNormalization, 1.2);
      return found;
    case FitClass::kSoftmax:
      add_bandwidth(found, OperatorClass::kSoftmax, 1.2);
      if (some(kernels, [](const Work& w) { return w.extent[1] > 1024; })) {
        found.push_back({.path = "efficiency.bandwidth.softmax_long_rows",
                         .share = [](DeviceProfile& p) -> double& { return p.softmax_long_rows; },
                         .time = {},
                         .lower = 0.15,
                         .upper = 1.2});
      }
      return found;
    case FitClass::kElementwise:
      add_bandwidth(found, OperatorClass::kElementwise, 1.2);
      return found;
    case FitClass::kStep:
      return step_parameters(profile, kernels);
    case FitClass::kOther:
      return found;
  }
  return found;
}

double ProfileParameter::value(DeviceProfile& profile) const {
  return time ? std::chrono::duration<double>(time(profile)).count() : share(profile);
}

void ProfileParameter::set(DeviceProfile& profile, double value) const {
  if (time) {
    time(profile) = Duration(std::llround(value / parameters_detail::kNanosecond));
  } else {
    share(profile) = value;
  }
}

std::string ProfileParameter::written(double value) const {
  // Times of a profile are whole nanoseconds.
  return time ? fmt::format("{}ns", std::llround(value / parameters_detail::kNanosecond))
              : fmt::format("{:.4g}", value);
}

}  // namespace tidemark
