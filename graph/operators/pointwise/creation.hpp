// Operators that create tensors from no input.
#pragma once

#include <string>

#include "graph/operators/family.hpp"

namespace tidemark {

// Creates a tensor of the attributes `shape` and `dtype`, which is `fallback` when absent. Fails
// for the name of an unknown element type.
void create_shaped(Inference& inference, const std::string& fallback);

}  // namespace tidemark
