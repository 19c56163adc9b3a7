// The figures of a profile that measured operators can tell, by class of operators.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "graph/ir/work.hpp"
#include "hwprofiles/device_profile.hpp"

namespace tidemark {

// One figure. Shares have no unit; times are in seconds here.
struct ProfileParameter {
  std::string path;  // "efficiency.matmul.fp16"
  // Finds the figure in a profile; one of the two is set.
  std::function<double&(DeviceProfile&)> share;
  std::function<Duration&(DeviceProfile&)> time;
  double lower = 0;  // bounds, above 0
  double upper = 1;
  double spread = 0.3;  // deviation of the prior around the profile's figure, in the logarithm

  [[nodiscard]] double value(DeviceProfile& profile) const;
  void set(DeviceProfile& profile, double value) const;
  [[nodiscard]] std::string written(double value) const;  // "0.8123", "8.4us"
};

// Classes of operators that share figures and are fitted together, in this order.
enum class FitClass {
  kMatmul,
  kConvolutionForward,
  kConvolutionBackwardData,
  kConvolutionBackwardWeight,
  kDepthwise,
  kAttention,
  kNormalization,
  kSoftmax,
  kElementwise,
  kStep,  // whole training steps: the shares of all classes that they have
  kOther
};
inline constexpr int kFitClasses = static_cast<int>(FitClass::kOther) + 1;
[[nodiscard]] std::string_view name_of(FitClass fit_class);
[[nodiscard]] FitClass fit_class_of(OperatorClass op_class);

// Returns the figures that these kernels of one class depend on: only those that some of them feel.
[[nodiscard]] std::vector<ProfileParameter> parameters_of(FitClass fit_class,
                                                          const DeviceProfile& profile,
                                                          std::span<const Work> kernels);

}  // namespace tidemark
