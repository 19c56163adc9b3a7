// A commented profile of a GPU to fill in, for `tidemark init --device`.
#pragma once

#include <string>

#include "hwprofiles/device_profile.hpp"

namespace tidemark {

struct DeviceTemplate {
  std::string name;        // name of the new profile: "my-gpu"
  bool same_chip = false;  // whether the new GPU has the chip of the one that it starts from
};

// Returns a profile that can be loaded as it stands: the figures of a data sheet, to be replaced,
// and every other figure of `base` in comments, with its source.
[[nodiscard]] std::string device_template(const DeviceTemplate& device, const DeviceProfile& base);

// Returns the name of a profile for a device called so: "My GPU 80 GB" is my-gpu-80-gb.
[[nodiscard]] std::string profile_name_of(const std::string& device);

}  // namespace tidemark
