#pragma once

#include <cstdint>
#include <optional>

#include "policies/remat/problem.hpp"

namespace tidemark::testing {

// The rules word by word: a step computes one node or frees one value. State: computed, resident,
// and in class checkmate the last node of the stage plus one.
std::optional<std::int64_t> least_cost(const RematProblem& problem, std::int64_t budget,
                                       ScheduleClass schedule_class);

}  // namespace tidemark::testing
