// Finds the best point of a sweep under a goal.
#pragma once

#include <cstddef>
#include <vector>

#include "scenarios/read/goal.hpp"
#include "scenarios/studies/simulate_points.hpp"

namespace tidemark {

struct SearchPoint {
  PointResult result;
  double objective = 0;             // not a number where the point has no such figure
  std::vector<std::size_t> breaks;  // indices of the goal's constraints that do not hold
  bool feasible = false;            // it fits, and all of them hold
};

struct SearchResult {
  Goal goal;
  std::vector<SearchPoint> points;   // in the sweep's order
  std::vector<std::size_t> ranking;  // feasible points, best first; equals in the sweep's order
};

// Simulates every point of the document's sweep. Throws UserError: no point can be read, a goal
// that decode_goal() refuses, figures of policies that no point has.
[[nodiscard]] SearchResult search(const Value& document, const Environment& environment,
                                  int threads, const SimulateOptions& options,
                                  const PointsListener& listener = {});

}  // namespace tidemark
