// Cheap schedules of large graphs: take some repeats out of a schedule, make room again in another
// way, keep what is not dearer.
//
// Room is made where memory is highest: a value that lies there unread is recomputed right
// before its next reader, with whatever of its inputs is gone by then, the cheapest per byte first.
// That alone, from the schedule without repeats, is eviction with look-ahead.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>

#include "policies/remat/problem.hpp"

namespace tidemark {

struct NeighbourhoodOptions {
  std::int64_t budget = 0;  // bytes, fixed bytes included
  // Repeats within one stage in ascending order, each at most once.
  bool checkmate = false;
  std::int64_t lower_bound = 0;  // the search ends at this cost
  // Whether to anneal from a start in which dropping the best value again and again does not end in
  // a schedule that fits; else the search gives up there.
  bool anneal = true;
  std::int64_t iterations = 1'000'000'000;
  std::uint64_t seed = 1;
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
};

// From `start`, a schedule whose first evaluations keep their order and which need not fit. Returns
// the cheapest that fits, if any was found.
[[nodiscard]] std::optional<Solution> neighbourhood_search(const RematProblem& problem,
                                                           const Schedule& start,
                                                           const NeighbourhoodOptions& options);

}  // namespace tidemark
