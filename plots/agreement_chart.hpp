// Predictions against measurements: one point a row, on the diagonal where they agree.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "plots/svg_chart.hpp"

namespace tidemark {

// Rows of one group; both values in the same unit and above 0.
struct AgreementGroup {
  std::string label;
  std::vector<SvgPoint> points;  // x measured, y predicted
};

// Both axes are decades: the logarithm of `unit`. Dashed lines are 20 % off. At most `kLineInks`
// groups have inks of their own, and a crowd of points is thinned to one per spot.
[[nodiscard]] SvgChart agreement_chart(const std::vector<AgreementGroup>& groups,
                                       const std::string& unit);

}  // namespace tidemark
