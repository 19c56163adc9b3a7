// Packings in one pass: buffers in a fixed order, each into a gap among those placed before.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "sim/memory/packing/problem.hpp"

namespace tidemark {

enum class GreedyOrder : std::uint8_t {
  kSize,      // largest first: TFLite's GreedyMemoryPlanner, XLA's kSpatial
  kDuration,  // longest first: XLA's kTemporal; nested lifetimes, as in a backward pass, stack up
  kArea,      // size x duration
  kBreadth,   // busiest instants first, their largest buffers first: Pisarchyk & Lee 2020
  kEnd,       // last freed first
};
inline constexpr GreedyOrder kGreedyOrders[] = {GreedyOrder::kSize, GreedyOrder::kDuration,
                                                GreedyOrder::kArea, GreedyOrder::kBreadth,
                                                GreedyOrder::kEnd};
enum class FitRule : std::uint8_t { kFirst, kBest };

[[nodiscard]] std::string_view name_of(GreedyOrder order);
[[nodiscard]] std::vector<int> greedy_order(const PackingProblem& problem, GreedyOrder order);

// Places the buffers in `order` (every buffer once), each at the lowest gap that is large enough,
// or at the tightest one. O(n^2) at worst, with a small constant.
[[nodiscard]] Packing place_in_order(const PackingProblem& problem, std::span<const int> order,
                                     FitRule fit);
[[nodiscard]] Packing pack_greedily(const PackingProblem& problem, GreedyOrder order, FitRule fit);

// Places the lowest address first: whichever buffer can lie lowest on those below it, the longest
// of them on ties. O(n^2) at worst.
[[nodiscard]] Packing pack_skyline(const PackingProblem& problem);

// Places the buffers as an allocator that is asked in the order of time: each into the smallest
// range that is free and large enough. O(n log n).
[[nodiscard]] Packing pack_by_time(const PackingProblem& problem);

// Returns the lowest of those before it above; stops at the first that reaches the lower bound and
// at the deadline. Where that comes before any is done it is pack_by_time().
[[nodiscard]] Packing best_greedy(
    const PackingProblem& problem, Bytes lower_bound,
    std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max());

}  // namespace tidemark
