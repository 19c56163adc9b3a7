// Between which operators a value is off device so that a step stays within a budget.
#pragma once

#include "policies/residency/memory_curve.hpp"
#include "policies/residency/saved_gaps.hpp"

namespace tidemark {

// `curve` counts the value as kept. The memory goes where the budget is first exceeded: compute
// waits there if the copy is not over. It comes back at the latest operator from which the
// predicted compute covers the copy, later where there is no room.
//
//   curve      ____/~~~~~~\______      budget between _ and ~
//   copies   <out> .         <in>
//                  release_at fetch_at
[[nodiscard]] Departure swap_window(const PolicyContext& context,
                                    const std::vector<Duration>& starts, const MemoryCurve& curve,
                                    const SavedGap& gap, std::int64_t budget);

// Free time of Capuchin: (t_back - t_swap_in) - (t_evict + t_swap_out). Negative: compute waits.
[[nodiscard]] Duration free_time(const PolicyContext& context, const std::vector<Duration>& starts,
                                 const SavedGap& gap);

// Takes the value off the curve while it is off device.
void take_off(const Departure& departure, MemoryCurve& curve);

}  // namespace tidemark
