// Parts that the parameters of the classes of operators share.
#pragma once

#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include "hwprofiles/calibrate/parameters.hpp"

namespace tidemark {

using Kernels = std::span<const Work>;

inline constexpr std::ptrdiff_t kFewestKernels = 3;  // a figure that fewer feel is left as it is

// Whether enough kernels are so.
template <class Is>
[[nodiscard]] bool some(Kernels kernels, Is is) {
  return std::count_if(kernels.begin(), kernels.end(), is) >= kFewestKernels;
}

[[nodiscard]] inline bool on_tensor_cores(const DeviceProfile& profile, const Work& work) {
  const DType type = matrix_type(profile, work.dtype);
  return type != DType::kFloat64 && type != DType::kFloat32;
}

struct ConvolutionDirection {
  OperatorClass op_class;
  const char* name;
  ConvolutionShare DeviceProfile::*shares;
  Duration LaunchProfile::*launch;
};
inline constexpr std::array<ConvolutionDirection, 3> kConvolutionDirections = {
    {{OperatorClass::kConvolution, "forward", &DeviceProfile::convolution_forward,
      &LaunchProfile::convolution},
     {OperatorClass::kConvolutionBackwardData, "backward_data",
      &DeviceProfile::convolution_backward_data, &LaunchProfile::convolution_backward_data},
     {OperatorClass::kConvolutionBackwardWeight, "backward_weight",
      &DeviceProfile::convolution_backward_weight, &LaunchProfile::convolution_backward_weight}}};

// Adds the bandwidth share of a class.
void add_bandwidth(std::vector<ProfileParameter>& found, OperatorClass op_class, double most);

// Returns what a step's time can tell: a share per class of kernels. Launches, tiles and the
// factors of windows hide in it.
[[nodiscard]] std::vector<ProfileParameter> step_parameters(const DeviceProfile& profile,
                                                            Kernels kernels);

}  // namespace tidemark
