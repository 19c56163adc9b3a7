// All optimizers by name.
#pragma once

#include <span>
#include <string_view>

#include "policies/optimizers/algorithm.hpp"

namespace tidemark {

[[nodiscard]] std::span<const std::string_view> optimizer_names();
// Finds an optimizer by its name. Throws InternalError for an unknown one.
[[nodiscard]] OptimizerKind find_optimizer(std::string_view name);

}  // namespace tidemark
