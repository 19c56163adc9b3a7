// Finds the lowest packing in a given time, and whether a lower one exists.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "sim/memory/packing/problem.hpp"

namespace tidemark {

struct PackOptions {
  // With a capacity, the search ends when the height is at most this and a further, short attempt
  // at the lower bound has failed. Without one it ends at the lower bound.
  std::optional<Bytes> capacity;
  // Wall-clock time after which the best packing so far is returned. It has no other influence: a
  // search that ends earlier gives the same packing on any machine.
  std::chrono::nanoseconds time_limit = std::chrono::seconds(10);
  // nodes of the whole search: a limit that gives repeatable results
  std::int64_t node_limit = std::int64_t{1} << 62;
};

struct PackResult {
  Packing packing;
  // A height below which no packing exists: the most live bytes, or more where the search has
  // excluded heights.
  Bytes lower_bound;
  std::int64_t nodes = 0;
  [[nodiscard]] bool optimal() const { return packing.height == lower_bound; }
};

// Tries greedy packings first; then, part by part of independent times, a complete search for lower
// heights, restarted with orders that put what failed first. One core, no randomness beyond a fixed
// sequence. Parts of more than a few thousand buffers keep their greedy packing.
[[nodiscard]] PackResult pack(const PackingProblem& problem, const PackOptions& options = {});

}  // namespace tidemark
