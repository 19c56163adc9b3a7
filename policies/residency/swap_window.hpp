// The choice of the operators between which a value is off device so that a step stays within a
// budget.
#pragma once

#include "policies/residency/memory_curve.hpp"
#include "policies/residency/saved_gaps.hpp"

namespace tidemark {

// Returns the departure of a value that `curve` counts as kept. Its memory is freed where the
// budget is first exceeded: compute waits there if the copy is not over. It comes back at the
// latest operator from which the predicted compute covers the copy, later where there is no room.
//
//   curve      ____/~~~~~~\______      budget between _ and ~
//   copies   <out> .         <in>
//                  release_at fetch_at
[[nodiscard]] Departure swap_window(const PolicyContext& context,
                                    const std::vector<Duration>& starts, const MemoryCurve& curve,
                                    const SavedGap& gap, Bytes budget);

// Returns the free time of Capuchin: (t_back - t_swap_in) - (t_evict + t_swap_out). Negative:
// compute waits.
[[nodiscard]] Duration free_time(const PolicyContext& context, const std::vector<Duration>& starts,
                                 const SavedGap& gap);

// Subtracts the value from the curve while it is off device.
void take_off(const Departure& departure, MemoryCurve& curve);

}  // namespace tidemark
