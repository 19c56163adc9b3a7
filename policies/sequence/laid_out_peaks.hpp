// The memory that a plan takes once it is laid out over a step. It is counted storage by storage,
// while the cost graph counts the results of an operator together.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "policies/plan/policy.hpp"

namespace tidemark {

// A stretch [begin, end) of an order.
struct Stretch {
  Position begin;
  Position end;
};

// Returns the most bytes that are live in each stretch of `order`, which repeats operators of the
// context's graph: storages, workspaces and what libraries keep, as an allocator without rounding
// serves them. Offloaded values are fetched as the context's rewrites do in this order. Values that
// a residency policy would move count as staying, so with one it takes less.
[[nodiscard]] std::vector<Bytes> laid_out_peaks(const PolicyContext& context,
                                                const ProgramOrder& order,
                                                std::span<const Stretch> stretches);

// Returns, by position of the context's order, the bytes whose home is off device and that are on
// the device while the operator runs.
[[nodiscard]] std::vector<Bytes> visiting_bytes(const PolicyContext& context);

}  // namespace tidemark
