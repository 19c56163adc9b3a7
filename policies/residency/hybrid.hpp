// Per value: keep, recompute or offload, whichever costs the step least.
#pragma once

#include "policies/registry.hpp"

namespace tidemark {

[[nodiscard]] const PolicyEntry& hybrid_entry();

}  // namespace tidemark
