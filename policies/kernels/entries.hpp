// Policies that run parts of a model by the kernels of a library.
#pragma once

#include "policies/plan/entry.hpp"

namespace tidemark {

[[nodiscard]] const PolicyEntry& liger_kernels_entry();

}  // namespace tidemark
