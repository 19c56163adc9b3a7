// KARMA: blocks that do not fit are swapped or recomputed, whichever is over sooner.
#pragma once

#include "policies/registry.hpp"

namespace tidemark {

[[nodiscard]] const PolicyEntry& karma_entry();

}  // namespace tidemark
