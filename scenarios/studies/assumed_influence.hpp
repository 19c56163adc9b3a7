// Finds the assumed figures of a device's profile that a result hangs on: each is varied over its
// range, and the same program is rerun where its prices change.
#pragma once

#include <optional>
#include <vector>

#include "hwprofiles/assumed_figures.hpp"
#include "scenarios/studies/detailed_point.hpp"

namespace tidemark {

struct AssumedInfluence {
  AssumedFigure figure;
  // Shares of the step's time and of the device memory used by which they change at the low
  // and at the high end of the figure's range.
  double step_at_low = 0;
  double step_at_high = 0;
  double memory_at_low = 0;
  double memory_at_high = 0;
  bool decides_fit = false;  // whether the step fits at one end and not at the other
};

// Changes of the step's time or memory below it are not reported.
inline constexpr double kLeastInfluence = 0.01;

struct AssumedReport {
  std::vector<AssumedInfluence> figures;  // largest change first
  // The changes of all figures together, as independent errors.
  double step_less = 0;
  double step_more = 0;
  double memory_less = 0;
  double memory_more = 0;
};

// Returns no value for a pipeline, whose stages run together, for a policy that evicts while the
// step runs, for very long steps, and for a point that could not be built. The point's scenario is
// left as it was.
[[nodiscard]] std::optional<AssumedReport> assumed_influence(DetailedPoint& point);

}  // namespace tidemark
