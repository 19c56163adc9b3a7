// The cost of one step on all devices: their time, energy and price.
#pragma once

#include <optional>

#include "hwprofiles/device_profile.hpp"
#include "sim/engine/run_result.hpp"

namespace tidemark {

struct StepCost {
  double device_hours = 0;
  std::optional<double> joules;  // an upper bound; absent where the profile has no power
  std::optional<double> price;   // price in the currency of hardware.price; absent without one
};

// Returns the cost of a step of `ranks` devices alike. While kernels of the compute stream run, a
// device draws the power of its board; the rest of the step its idle power, or the board's where
// that is not known.
[[nodiscard]] StepCost step_cost(const DeviceProfile& device, int ranks, const RunResult& run);

}  // namespace tidemark
