// The time of single operators on a device.
#pragma once

#include <span>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "hwprofiles/device_profile.hpp"
#include "scenarios/studies/operator_text.hpp"
#include "sim/result/time_breakdown.hpp"

namespace tidemark {

// One kernel, or the kernels that one call of the framework starts.
struct OperatorPrice {
  std::string text;    // operator as it was written
  std::string kernel;  // "linear", "linear.weight_gradient"
  OperatorClass op_class = OperatorClass::kNone;
  Duration time{};
  Duration host{};  // time of the eager framework on the host
  Bound bound = Bound::kMemory;
  // Shares of the device's peak that it reaches: of the arithmetic of its type, of the bandwidth.
  double of_arithmetic = 0;
  double of_bandwidth = 0;
  Flops flops;
  Bytes bytes;  // each operand once
  int launches = 0;

  // Returns the share of what bounds it; where launches do, the larger one.
  [[nodiscard]] double efficiency() const;
};

// Returns the forward kernel, and those of backward where the text asks for them.
[[nodiscard]] std::vector<OperatorPrice> price_operator(const OperatorText& op,
                                                        const DeviceProfile& device);

// Reads the column `operator` of a table with a header; lines that are empty or begin with # are
// left out. Throws UserError with the line.
[[nodiscard]] std::vector<OperatorText> read_operator_table(const std::string& path);

[[nodiscard]] nlohmann::ordered_json prices_json(std::span<const OperatorPrice> prices,
                                                 const DeviceProfile& device);

}  // namespace tidemark
