// Bounded least squares on relative residuals, in the logarithms of the parameters.
//
// Minimises, over x = log(parameters) within their bounds,
//   sum of huber(predicted / measured - 1) + sum of (scale (x - prior) / spread)^2
// by Levenberg-Marquardt steps with a numerical Jacobian (Eigen), each followed by a search along
// the axes, because a roofline has kinks where derivatives say nothing. Huber's loss is quadratic
// up to 10 % and linear beyond, so that a few rows of another kernel do not decide.
#pragma once

#include <functional>
#include <vector>

namespace tidemark {

struct FitVariable {
  double start = 1;  // initial value, above 0 and within the bounds; the prior's centre, too
  double lower = 0;  // lower bound, above 0
  double upper = 1;
  double spread = 1;  // deviation of the prior, in the logarithm: 0.3 is about 30 %
};

struct FittedVariable {
  double value = 0;
  double low = 0;  // 95 % interval, within the bounds
  double high = 0;
  bool at_bound = false;
};

// Fills `residuals` with predicted / measured - 1 at these values.
using Residuals =
    std::function<void(const std::vector<double>& values, std::vector<double>& residuals)>;

// Deterministic. Without variables or residuals nothing is fitted and the starts come back.
[[nodiscard]] std::vector<FittedVariable> fit_bounded(const std::vector<FitVariable>& variables,
                                                      std::size_t residual_count,
                                                      const Residuals& residuals);

}  // namespace tidemark
