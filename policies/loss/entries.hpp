// Policies that change how a model's loss is computed.
#pragma once

#include "policies/plan/entry.hpp"

namespace tidemark {

[[nodiscard]] const PolicyEntry& chunked_loss_entry();
[[nodiscard]] const PolicyEntry& fused_loss_entry();

}  // namespace tidemark
