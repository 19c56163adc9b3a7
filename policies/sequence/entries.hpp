// The entries of the policies that decide the order of a step. Those of plans are in planned.hpp.
#pragma once

#include "policies/plan/entry.hpp"

namespace tidemark {

[[nodiscard]] const PolicyEntry& revolve_entry();

}  // namespace tidemark
