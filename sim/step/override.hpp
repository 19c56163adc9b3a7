// A change to one key of what describes a step: one of a sweep's point, of the command line, of a
// suggestion.
#pragma once

#include <string>

#include "graph/core/document.hpp"

namespace tidemark {

struct Override {
  std::string key;  // "training.micro_batch", "policies.zero.stage"
  Value value;
};

}  // namespace tidemark
