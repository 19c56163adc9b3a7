// Measured operators as a device's profile prices them.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "hwprofiles/cost_model.hpp"
#include "hwprofiles/measured/measured_operators.hpp"

namespace tidemark {

// The overhead that a table adds to kernels timed from the host:
//   measured = max(floor, overhead + kernels)
// The floor is what the smallest operators of one kind took, which is the host's time to issue one;
// the overhead is the part of it that does not hide behind the kernel.
struct TimingFloor {
  double floor = 0;     // seconds
  double overhead = 0;  // seconds, at most the floor
};

// Overheads before they are fitted, over the floor: what additions of NeuSight's tables show on
// V100, A100 and T4 alike (0.35 to 0.45).
inline constexpr double kUsualOverhead = 0.4;

// One measured operator on a known device.
struct Observation {
  const MeasuredOperator* op = nullptr;
  std::string device;                // name of the profile
  std::string group;                 // "a100-pcie-40gb softmax fp32"
  std::optional<std::size_t> floor;  // index in Observations::floors
};

struct Observations {
  std::vector<Observation> all;
  std::vector<TimingFloor> floors;
  std::vector<std::string> floor_groups;
};

// Returns the profile that a table's name of a device means; none: no profile has that name. Where
// the memory is left open the largest is taken, which operators' times do not depend on.
[[nodiscard]] std::optional<std::string> device_called(const std::string& name,
                                                       std::span<const std::string> profiles);

// Returns whether a table's name of a device means the chip of this profile, or none at all. The
// name of a profile of the user's own is compared as those of `profiles` are.
[[nodiscard]] bool is_device_of(const std::string& name, const std::string& profile,
                                std::span<const std::string> profiles);

// Returns the name of the chip in the name of a profile: "a100" of a100-sxm-80gb.
[[nodiscard]] std::string chip_of(std::string_view profile);

// Adds an operator on `device`; groups of one kind, device and table share a floor.
void observe(Observations& observations, const MeasuredOperator& op, const std::string& device,
             const std::string& table);
// Sets every floor from the rows for which `counts` holds.
void set_floors(Observations& observations, const std::vector<char>& counts);

// Returns the seconds of the kernels, those of a whole step as within_step() prices them and with
// its waits, and the seconds of what is measured with them.
[[nodiscard]] double kernel_seconds(const MeasuredOperator& op, const CostModel& alone);
[[nodiscard]] double measured_as(double kernels, const TimingFloor& floor);

// Returns why the row cannot be: a rate above what the device can reach. None: it can.
[[nodiscard]] std::optional<std::string> impossible(const MeasuredOperator& op,
                                                    const DeviceProfile& device);

// Errors of predictions; error = predicted / measured - 1.
struct ErrorSummary {
  std::size_t n = 0;
  double mape = 0;    // mean absolute error
  double median = 0;  // median absolute error
  double bias = 0;    // mean error; above 0: predicted too slow
};
[[nodiscard]] ErrorSummary summary_of(const std::vector<double>& errors);

}  // namespace tidemark
