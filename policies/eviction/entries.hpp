// The entry of the policy that chooses what to evict when an allocation fails.
#pragma once

#include "policies/plan/entry.hpp"

namespace tidemark {

[[nodiscard]] const PolicyEntry& eviction_entry();

}  // namespace tidemark
