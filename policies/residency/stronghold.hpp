// STRONGHOLD's working window, for saved activations.
#pragma once

#include "policies/registry.hpp"

namespace tidemark {

[[nodiscard]] const PolicyEntry& stronghold_entry();

}  // namespace tidemark
