// Finds the best point of a sweep under a goal.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "scenarios/read/goal.hpp"
#include "scenarios/studies/simulate_points.hpp"

namespace tidemark {

// A reason why a point is no answer.
struct Breach {
  std::optional<std::size_t> constraint;  // one of the goal's; none: the step does not fit
  // In the constraint's unit, or bytes that the device lacks; not a number where it is not known.
  double by = 0;
};

struct SearchPoint {
  PointResult result;
  std::vector<double> objectives;  // not a number where the point has no such figure
  std::vector<Breach> breaks;      // empty for a point that could not be built
  bool feasible = false;           // it fits, all constraints hold, and it has every objective

  // Returns whether it is at least as good in every objective, and better in one.
  [[nodiscard]] bool dominates(const SearchPoint& other, bool maximize) const;
};

struct SearchResult {
  Goal goal;
  std::vector<SearchPoint> points;  // in the sweep's order
  // Feasible points, best first by the first objective, then by the next ones; equals in the
  // sweep's order.
  std::vector<std::size_t> ranking;
  std::vector<std::size_t> front;  // those of them that no other dominates, in this order
};

// Simulates every point of the document's sweep; the smallest capacity of points that fit is found
// where the options or the goal ask for it. Throws UserError: no point can be read, a goal
// that decode_goal() refuses, figures of policies that no point has.
[[nodiscard]] SearchResult search(const Value& document, const Environment& environment,
                                  int threads, const SimulateOptions& options,
                                  const PointsListener& listener = {});

}  // namespace tidemark
