// A hash that tells whether two training graphs compute the same gradients.
#pragma once

#include <cstdint>

#include "graph/ir/training_graph.hpp"

namespace tidemark {

// Hashes which parameter gradients are produced and from what: two graphs with the same fingerprint
// train the same parameters by the same kernels. Rewrites that must not change the result are
// tested with it.
[[nodiscard]] std::uint64_t gradient_fingerprint(const TrainingGraph& graph);

}  // namespace tidemark
