// training.global_batch, for studies that choose micro-batches which may not divide it.
#pragma once

#include "graph/core/document.hpp"

namespace tidemark {

// Returns the value of training.global_batch; null where the scenario has none.
[[nodiscard]] const Value* global_batch_of(const Value& scenario);
// Returns the scenario with one micro-batch to a step, whatever the global batch.
[[nodiscard]] Value without_global_batch(Value scenario);

}  // namespace tidemark
