// The points of a document's sweep, simulated on a few threads.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "scenarios/read/scenario.hpp"
#include "scenarios/studies/detailed_point.hpp"
#include "sim/step/simulate.hpp"

namespace tidemark {

// The document as a point of its sweep has it, without `sweep`.
struct PointDocument {
  Value document;
  std::vector<Override> overrides;
  std::string error;  // why an override cannot be applied; empty if all are
};
[[nodiscard]] std::vector<PointDocument> point_documents(const Value& document);

// What a caller hears of while points are simulated, from their threads; each may be empty.
struct PointsListener {
  // One call at a time.
  std::function<void(std::size_t done, std::size_t total)> progress;
  std::function<void(std::size_t index, const PointResult&)> finished;
  // The run behind each point that could be built, before it is finished; several calls at a time.
  // Where a plan for less memory stands in, it is that plan's run. Nothing keeps it afterwards.
  std::function<void(std::size_t index, const SimulatedPoint&)> detail;
};

// Points of a document, on `threads` threads over shared models; a point that fails is a row with
// its reason. The order of the result does not depend on the threads. `wanted`: by point of the
// sweep; empty: all. What is not wanted has no name and no figures, but may be simulated for the
// sake of another (see smaller_budget.hpp).
[[nodiscard]] std::vector<PointResult> simulate_points(const Value& document,
                                                       const Environment& environment, int threads,
                                                       const SimulateOptions& options,
                                                       const PointsListener& listener = {},
                                                       const std::vector<bool>& wanted = {});

}  // namespace tidemark
