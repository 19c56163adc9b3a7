// Online rematerialization: when an allocation fails, blocks are dropped and computed again when
// they are needed. One policy with the scores of several systems.
#pragma once

#include "policies/registry.hpp"

namespace tidemark {

[[nodiscard]] const PolicyEntry& eviction_entry();

}  // namespace tidemark
