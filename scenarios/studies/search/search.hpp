// Finds the best points of a sweep under a goal.
//
// Points that cannot be an answer are not simulated: those whose program needs more live bytes than
// the device has, those that break a constraint however well they run, and those of which another
// point is better than they could be. What no run can be better than follows from the kernels and
// the live bytes of a compiled step (PointRunner::bound_by_program). Along a micro-batch the first
// value that cannot fit is found by bisection.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
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

// Returns whether figures are at least as good in every objective, and better in one.
[[nodiscard]] bool dominates(const std::vector<double>& figures, const std::vector<double>& others,
                             bool maximize);

struct SearchPoint {
  std::size_t index = 0;  // index in the sweep
  PointResult result;
  std::vector<double> objectives;  // not a number where the point has no such figure
  std::vector<Breach> breaks;      // empty for a point that could not be built
  bool feasible = false;           // it fits, all constraints hold, and it has every objective
};

// A point that was not simulated, as it cannot be an answer.
struct ExcludedPoint {
  std::size_t index = 0;  // index in the sweep
  std::string name;
  std::vector<Override> overrides;
  // Objectives that no run of it is better than; infinite where nothing is known, empty where
  // nobody has looked.
  std::vector<double> objectives;
  std::optional<Breach> breaks;  // least breach of a limit; none: others are better
  // It does not fit because the same point with a smaller micro-batch or sequence does not.
  bool by_smaller = false;
};

struct SearchResult {
  Goal goal;
  std::vector<SearchPoint> points;      // those that were simulated, in the sweep's order
  std::vector<ExcludedPoint> excluded;  // the others, in the sweep's order
  // Feasible points, best first by the first objective, then by the next ones; equals in the
  // sweep's order.
  std::vector<std::size_t> ranking;
  std::vector<std::size_t> front;  // those of them that no other dominates, in this order

  [[nodiscard]] std::size_t space() const { return points.size() + excluded.size(); }
};

// How far an answer is proven. All but one reason to leave a point out are bounds; points that are
// taken not to fit because smaller ones do not (ExcludedPoint::by_smaller) are an assumption.
struct Proof {
  // Those of them that would be an answer if they fitted, for all that is known.
  std::size_t assumed = 0;
  // Value of the first objective that no point of the space is better than; none where it is
  // unknown.
  std::optional<double> bound;
};
[[nodiscard]] Proof proof_of(const SearchResult& found);

struct SearchOptions {
  // The smallest capacity of points that fit is found where the goal asks for it, too.
  SimulateOptions simulation;
  bool every_point = false;  // simulates also what cannot be an answer
  // So many of the best are found, in their order, where the goal has one objective.
  std::size_t answers = 1;
};

// Throws UserError: no point can be read, a goal that decode_goal() refuses, figures of policies
// that no point has.
[[nodiscard]] SearchResult search(const Value& document, const Environment& environment,
                                  int threads, const SearchOptions& options,
                                  const PointsListener& listener = {});

}  // namespace tidemark
