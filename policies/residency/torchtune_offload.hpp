// torchtune's OffloadActivations: every saved tensor, a few in flight.
#pragma once

#include "policies/registry.hpp"

namespace tidemark {

[[nodiscard]] const PolicyEntry& torchtune_offload_entry();

}  // namespace tidemark
