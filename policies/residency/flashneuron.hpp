// FlashNeuron: the first saved tensors in forward order, as many as are needed.
#pragma once

#include "policies/registry.hpp"

namespace tidemark {

[[nodiscard]] const PolicyEntry& flashneuron_entry();

}  // namespace tidemark
