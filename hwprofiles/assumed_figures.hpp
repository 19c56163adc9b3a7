// The figures of a profile that nobody has measured on the device, and how far off each may be.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "hwprofiles/device_profile.hpp"

namespace tidemark {

inline constexpr std::string_view kTakenOver = "as ";  // begins the source of another chip's figure
inline constexpr std::string_view kRangeNote = "range ";  // begins the note of `range: 5us to 25us`

struct AssumedFigure {
  std::string path;   // "efficiency.bandwidth.softmax"
  std::string value;  // value as written, with its unit
  std::string low;    // ends of its range
  std::string high;
  std::string source;
};

// Whether a source says that the figure is assumed, recalled, or taken over from elsewhere.
[[nodiscard]] bool is_assumed(const Figure& figure);

// Returns the figures that are assumed or state a range, in the order of the profile. The range is
// the figure's own; else it depends on the kind: times half and twice; what the framework takes the
// same; the capacity 2 %; everything else 10 % where only recalled, else 20 %. Counts that switch
// behaviour (GPUs of a host) have none and are left out.
[[nodiscard]] std::vector<AssumedFigure> assumed_figures(const DeviceProfile& profile);

// Returns the profile with another value of one figure. Throws UserError where it is not possible.
[[nodiscard]] DeviceProfile with_figure(const DeviceProfile& profile, const std::string& path,
                                        const std::string& value);

// Whether only capacity, peaks and bandwidth are the device's own: a TPU runs no CUDA kernels.
[[nodiscard]] bool is_roofline_only(const DeviceProfile& profile);

}  // namespace tidemark
