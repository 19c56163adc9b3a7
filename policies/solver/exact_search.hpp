// The cheapest schedule of a small graph, with proof: A* over what has been computed and what is
// resident.
//
//   state    computed nodes D (a prefix of the list except in class unrestricted), resident S
//            (in class checkmate also the last node of the stage)
//   step     compute one node whose inputs are resident; where it does not fit, a smallest set of
//            residents goes first. Freeing as late as possible, and no more than is needed, loses
//            nothing, since what stays may always go later.
//   cost     of repeated nodes only
//   bound    nodes that have to be recomputed because neither they nor enough of what they come
//            from is resident; plus, over all nodes v still to be computed, the cheapest
//            (fractional) choice of residents that must go for v to fit and are read after v
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "policies/remat/problem.hpp"

namespace tidemark {

struct ExactOptions {
  std::int64_t budget = 0;  // bytes, fixed bytes included
  ScheduleClass schedule_class = ScheduleClass::kFixed;
  std::optional<std::int64_t> better_than;  // only schedules of less cost are looked for
  std::size_t state_limit = 5'000'000;      // states kept; 60 to 120 bytes each
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
};

struct ExactResult {
  bool complete = false;             // the search ended: `schedule` is optimal or none exists
  std::optional<Schedule> schedule;  // a cheapest one, cheaper than `better_than`
  std::int64_t lower_bound = 0;      // no schedule (cheaper than `better_than`) costs less
  std::size_t states = 0;
};

// Largest number of nodes of a graph that is searched exactly.
inline constexpr NodeIndex kExactNodes = 128;

// Every node's footprint must be within the budget.
[[nodiscard]] ExactResult exact_search(const RematProblem& problem, const ExactOptions& options);

}  // namespace tidemark
