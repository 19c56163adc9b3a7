// All optimizers by name.
#pragma once

#include <span>
#include <string_view>

#include "policies/optimizers/algorithm.hpp"

namespace tidemark {

[[nodiscard]] std::span<const std::string_view> optimizer_names();
// Throws InternalError for a name that is none of these.
[[nodiscard]] OptimizerKind find_optimizer(std::string_view name);

}  // namespace tidemark
