// Cheap schedules of large graphs: take some repeats out of a schedule, make room in another way,
// keep a result that is not dearer.
//
// Room is made where memory is highest: a value that is resident there unread is recomputed right
// before its next reader, with those of its inputs that are freed by then, the cheapest per byte
// first. That alone, from the schedule without repeats, is eviction with look-ahead.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>

#include "policies/remat/problem.hpp"

namespace tidemark {

struct NeighbourhoodOptions {
  std::int64_t budget = 0;  // bytes, fixed bytes included
  // Whether repeats within one stage are in ascending order, each at most once.
  bool checkmate = false;
  std::int64_t lower_bound = 0;  // the search ends at this cost
  // Whether to anneal from a start for which dropping the best value repeatedly does not end in a
  // schedule that fits; else the search gives up there.
  bool anneal = true;
  std::int64_t iterations = 1'000'000'000;
  std::uint64_t seed = 1;
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
};

// Searches from `start`, a schedule whose first evaluations keep their order and which need not
// fit. Returns the cheapest that fits, if any was found.
[[nodiscard]] std::optional<Solution> neighbourhood_search(const RematProblem& problem,
                                                           const Schedule& start,
                                                           const NeighbourhoodOptions& options);

}  // namespace tidemark
