// A change to one key of what describes a step; it comes from a sweep's point, the command line or
// a suggestion.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "graph/core/document.hpp"

namespace tidemark {

struct Override {
  std::string key;  // "training.micro_batch", "policies.zero.stage"
  Value value;
};

// Returns the value that a list of overrides gives a key; null where it does not change it.
[[nodiscard]] inline const Value* value_of(std::span<const Override> overrides,
                                           std::string_view key) {
  for (const Override& change : overrides) {
    if (change.key == key) return &change.value;
  }
  return nullptr;
}

}  // namespace tidemark
