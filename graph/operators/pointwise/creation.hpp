// Tensors that are made from nothing.
#pragma once

#include <string>

#include "graph/operators/family.hpp"

namespace tidemark {

// Creates a tensor of the attributes `shape` and `dtype`, which is `fallback` when absent. Fails
// when no element type is called so.
void create_shaped(Inference& inference, const std::string& fallback);

}  // namespace tidemark
