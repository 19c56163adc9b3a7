// Capuchin: swap or recompute by free time and by saving per second.
#pragma once

#include "policies/registry.hpp"

namespace tidemark {

[[nodiscard]] const PolicyEntry& capuchin_entry();

}  // namespace tidemark
