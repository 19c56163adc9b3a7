// A change to one key of what describes a step; it comes from a sweep's point, the command line or
// a suggestion.
#pragma once

#include <string>

#include "graph/core/document.hpp"

namespace tidemark {

struct Override {
  std::string key;  // "training.micro_batch", "policies.zero.stage"
  Value value;
};

}  // namespace tidemark
