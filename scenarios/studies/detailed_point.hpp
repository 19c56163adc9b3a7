// A point on its own, with the run behind its figures.
#pragma once

#include <memory>
#include <optional>

#include "graph/core/errors.hpp"
#include "scenarios/read/scenario.hpp"
#include "sim/step/point_result.hpp"
#include "sim/step/simulate.hpp"

namespace tidemark {

struct DetailedPoint {
  Value document;  // the document with the changes of the point
  Scenario scenario;
  PointResult result;
  PointDetail detail;
};

// A point's figures and, where they are wanted, the run behind them.
struct SimulatedPoint {
  PointResult result;
  std::shared_ptr<const DetailedPoint> detail;
  std::optional<UserError> mistake;  // reason of an error that is the user's
};

}  // namespace tidemark
