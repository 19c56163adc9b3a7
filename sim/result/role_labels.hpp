// The roles of memory as people call them, in the order in which they are stacked.
#pragma once

#include <array>
#include <string_view>

#include "graph/ir/storage.hpp"

namespace tidemark {

// The bottom of a stacked chart comes first: roles that stay, then those that come and go.
inline constexpr std::array<Role, kRoles> kStackOrder = {Role::kFrozenParameter,
                                                         Role::kQuantisedParameter,
                                                         Role::kTeacher,
                                                         Role::kParameter,
                                                         Role::kAdapter,
                                                         Role::kOptimizerState,
                                                         Role::kGradient,
                                                         Role::kGradientBucket,
                                                         Role::kBuffer,
                                                         Role::kInput,
                                                         Role::kLoader,
                                                         Role::kKeyValueCache,
                                                         Role::kGatheredParameter,
                                                         Role::kSavedActivation,
                                                         Role::kActivationGradient,
                                                         Role::kCommunication,
                                                         Role::kTemporary,
                                                         Role::kWorkspace};

// Returns for example "saved activations".
[[nodiscard]] constexpr std::string_view label_of(Role role) {
  constexpr std::array<std::string_view, kRoles> kLabels{"parameters",
                                                         "gradients",
                                                         "optimizer state",
                                                         "buffers",
                                                         "inputs",
                                                         "saved activations",
                                                         "activation gradients",
                                                         "temporaries",
                                                         "gradient buckets",
                                                         "gathered parameters",
                                                         "communication buffers",
                                                         "frozen parameters",
                                                         "quantised parameters",
                                                         "adapters",
                                                         "teacher",
                                                         "loader",
                                                         "key-value cache",
                                                         "workspace"};
  return kLabels[static_cast<std::size_t>(role)];
}

}  // namespace tidemark
