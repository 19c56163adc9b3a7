// SuperNeurons: convolution outputs move, what is cheap is computed again.
#pragma once

#include "policies/registry.hpp"

namespace tidemark {

[[nodiscard]] const PolicyEntry& superneurons_entry();

}  // namespace tidemark
