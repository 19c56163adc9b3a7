// Simulates one point of a document once: figures, suggestions and the run behind them.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "scenarios/read/scenario.hpp"
#include "scenarios/studies/detailed_point.hpp"
#include "scenarios/studies/shared_models.hpp"
#include "sim/step/compile.hpp"
#include "sim/step/point_runner.hpp"
#include "sim/step/simulate.hpp"

namespace tidemark {

// Options for simulating a point, in addition to the figures that are wanted.
struct PointRequest {
  SimulateOptions options;
  // Outcomes of the same policies with less memory; null if there are none.
  const std::vector<PolicyOutcome>* smaller_budget = nullptr;
  bool detailed = false;  // keeps the run
};

// Simulates the point that `document` describes and `scenario` is read from. `model` is its model,
// or that of a scenario with the same training_key. Throws UserError.
[[nodiscard]] SimulatedPoint simulate_point(const Value& document, Scenario scenario,
                                            std::shared_ptr<const TrainedModel> model,
                                            const Environment& environment,
                                            const PointRequest& request);

// Simulates a point with a model that is built for it alone; `sink`, if given, receives the run.
[[nodiscard]] PointResult simulate_alone(const Value& document, const Scenario& scenario,
                                         const Environment& environment,
                                         const PointRequest& request, const DetailSink& sink = {});

// Does something with a point of a sweep, whose document, scenario and model it receives.
using PointWork = std::function<SimulatedPoint(const Value& document, Scenario scenario,
                                               std::shared_ptr<const TrainedModel> model)>;
// Reads the point that the overrides make of `base`, finds its model, and works on it. A mistake is
// the reason in a row without figures, or thrown where there is only one point, `alone`.
[[nodiscard]] SimulatedPoint work_on_point(const Value& base, std::span<const Override> overrides,
                                           bool alone, const Environment& environment,
                                           SharedModels& models, const PointWork& work);
// Returns the row of a point that cannot be read.
[[nodiscard]] SimulatedPoint error_row(const Value& document, const UserError& mistake);

// Simulates the only point of a document, or point `index` of its sweep. Throws UserError.
[[nodiscard]] DetailedPoint simulate_in_detail(const Value& document, std::size_t index,
                                               const Environment& environment,
                                               const SimulateOptions& options);

// Throws UserError for a scenario that lists memory_elastic: one point has one micro-batch.
void refuse_elastic(const Scenario& scenario);

}  // namespace tidemark
