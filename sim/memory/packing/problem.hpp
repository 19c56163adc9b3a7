// Static memory packing: buffers with known lifetimes get fixed addresses.
//
//   offset                                     height: the largest end of a buffer
//     |     +---------+                        lower bound: the most bytes live at one instant
//     |     |    c    |
//     | +---+--+---+--+
//     | |  a   |   | b|                        buffers that are never live together may share
//     +-+------+---+--+---> time               addresses; that is all that packing is about
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "graph/core/units.hpp"

namespace tidemark {

// A buffer that is live at the instants lower <= t < upper, of any unit.
struct Buffer {
  std::int64_t lower = 0;
  std::int64_t upper = 0;  // > lower
  Bytes size;              // >= 0
};

struct PackingProblem {
  std::vector<Buffer> buffers;  // the sizes sum to less than 2^63
};

struct Packing {
  std::vector<Bytes> offsets;  // offset of each buffer
  Bytes height;
};

// Returns the most bytes that are live at one instant: no packing is lower.
[[nodiscard]] Bytes most_live_bytes(const PackingProblem& problem);

[[nodiscard]] Bytes height_of(const PackingProblem& problem, const std::vector<Bytes>& offsets);

// Returns why these are no legal addresses, or nothing: a missing or negative offset, two buffers
// that share a byte at an instant, a height that is not the packing's. Shares no code with the
// packers; a sweep over time with the occupied addresses in order, O(n log n).
[[nodiscard]] std::optional<std::string> packing_fault(const PackingProblem& problem,
                                                       const Packing& packing);

}  // namespace tidemark
