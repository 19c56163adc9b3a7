// Simulates the points of a document's sweep on a few threads.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "scenarios/read/scenario.hpp"
#include "scenarios/studies/detailed_point.hpp"
#include "sim/step/simulate.hpp"

namespace tidemark {

// The document of one point of the sweep, without `sweep`.
struct PointDocument {
  Value document;
  std::vector<Override> overrides;
  std::string error;  // reason why an override cannot be applied; empty if all are
};
// `base`: the sweep's document without `sweep`.
[[nodiscard]] PointDocument make_point_document(const Value& base, std::vector<Override> overrides);
[[nodiscard]] std::vector<PointDocument> point_documents(const Value& document);

// Callbacks while points are simulated, called from their threads; each may be empty.
struct PointsListener {
  // Receives the progress, one call at a time.
  std::function<void(std::size_t done, std::size_t total)> progress;
  std::function<void(std::size_t index, const PointResult&)> finished;
  // Receives the run behind each point that could be built, before it is finished; several calls at
  // a time. Where a plan for less memory stands in, it is that plan's run. The run is freed
  // afterwards.
  std::function<void(std::size_t index, const SimulatedPoint&)> detail;
  // Whether `detail` is to receive each of them: a point whose figures follow from a run on a
  // device of another capacity is then run all the same.
  bool every_detail = true;
};

// Simulates points of a document, on `threads` threads over shared models; a point that fails is a
// row with its reason, unless all fail with a mistake that the scenario has without the sweep, too:
// that is thrown, and `finished` hears of no point. The order of the result does not depend on the
// threads. `wanted` selects by point of the sweep; empty: all. Points that are not wanted have no
// name and no figures, but may be simulated for the sake of another (see smaller_budget.hpp). Of
// several points the result has what read_point() has of an entry; the rest is dropped once
// `detail` has seen it.
[[nodiscard]] std::vector<PointResult> simulate_points(const Value& document,
                                                       const Environment& environment, int threads,
                                                       const SimulateOptions& options,
                                                       const PointsListener& listener = {},
                                                       const std::vector<bool>& wanted = {});

}  // namespace tidemark
