// Locates mistakes in a scenario that only a model or a policy can see.
#pragma once

#include "graph/core/document.hpp"
#include "graph/core/errors.hpp"

namespace tidemark {

// Returns the error at the key that its path names, "training.image" or
// "policies.checkpoint.layers", or at the nearest key around it that the document has; unchanged
// when it has a location, or no path that begins with a key of the document.
[[nodiscard]] UserError located(const UserError& error, const Value& document);

}  // namespace tidemark
