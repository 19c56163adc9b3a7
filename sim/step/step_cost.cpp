#include "sim/step/step_cost.hpp"

#include <algorithm>

namespace tidemark {

StepCost step_cost(const DeviceProfile& device, int ranks, const RunResult& run) {
  constexpr double kSecondsPerHour = 3600;
  const auto seconds = [](Duration duration) {
    return std::chrono::duration<double>(duration).count();
  };
  const double step = seconds(run.step);
  StepCost cost{.device_hours = ranks * step / kSecondsPerHour};
  if (device.price > 0) cost.price = cost.device_hours * device.price;
  if (device.power.watts > 0) {
    const double busy =
        std::min(step, seconds(run.busy[static_cast<std::size_t>(Stream::kCompute)]));
    const double idle = device.power.idle > 0 ? device.power.idle : device.power.watts;
    cost.joules = ranks * (busy * device.power.watts + (step - busy) * idle);
  }
  return cost;
}

}  // namespace tidemark
