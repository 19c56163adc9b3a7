// Plans of single policies, which are also plans of `hybrid`: it takes one where its own choices
// are no better.
#pragma once

#include "policies/residency/prefetch.hpp"

namespace tidemark {

// Where the predicted live bytes pass the budget, the value with the farthest next use leaves
// (Belady 1966: the fewest copies when all values have one size); it comes back as soon as there is
// room until its use. This is the baseline for how little must move, whatever it costs in time:
// compute waits for a copy out exactly where the memory is needed.
void plan_belady(const PolicyContext& context, const Prefetch& fetching, Bytes min_bytes,
                 ResidencyPlan& plan);

// Swaps or, with `recompute`, swaps and recomputes as Capuchin does: see capuchin.cpp.
void plan_capuchin(const PolicyContext& context, const Prefetch& fetching, bool recompute,
                   Bytes min_bytes, ResidencyPlan& plan);

}  // namespace tidemark
