// Optimal reversal of a chain of equal steps with few checkpoints.
#pragma once

#include <cstdint>
#include <vector>

namespace tidemark {

// Returns the blocks whose forward is recomputed before the backward of each block, for `blocks`
// equal steps when `checkpoints` inputs may be kept beside the first. Minimal in forward
// evaluations: with c = checkpoints + 1 and the smallest r such that binomial(c + r, c) >= l, the
// repeats number r * l - binomial(c + r, c + 1)  (Griewank and Walther 2000, algorithm 799, eq. 2).
[[nodiscard]] std::vector<std::vector<int>> revolve_repeats(int blocks, int checkpoints);

}  // namespace tidemark
