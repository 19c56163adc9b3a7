// Spends the room that a schedule leaves within its budget on keeping values that it recomputes.
//
//   x ... | x' ... y' ... | dx        x' is taken out: x stays until y' and dx, if that fits
#pragma once

#include <chrono>
#include <cstdint>

#include "policies/remat/problem.hpp"

namespace tidemark {

// Takes repeats out of a schedule that fits within `budget`, and with each those that only it has
// read, while it still fits: first those that spare most cost for the bytes that stay, or most
// cost, whichever ends cheaper. First evaluations stay where they are and no repeat is added, so
// that the class of the schedule remains. One that does not fit is returned as it is, and at
// `deadline` what has been gained until then.
[[nodiscard]] Schedule keep_more(
    const RematProblem& problem, std::int64_t budget, const Schedule& schedule,
    std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max());

}  // namespace tidemark
