// vDNN: the inputs of layers, all or those of convolutions.
#pragma once

#include "policies/registry.hpp"

namespace tidemark {

[[nodiscard]] const PolicyEntry& vdnn_entry();

}  // namespace tidemark
