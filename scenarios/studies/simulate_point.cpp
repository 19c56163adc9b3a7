#include "scenarios/studies/simulate_point.hpp"

#include <utility>
#include <vector>

#include <fmt/format.h>

#include "graph/core/errors.hpp"
#include "scenarios/read/located_error.hpp"
#include "scenarios/studies/accepted_sizes.hpp"
#include "scenarios/studies/suggestions.hpp"

namespace tidemark {
namespace simulate_point_detail {
namespace {

PointResult run_once(const Value& document, const Scenario& scenario,
                     std::shared_ptr<const TrainedModel> model, const Environment& environment,
                     const PointRequest& request, const DetailSink& sink) {
  PointRunner runner(scenario, std::move(model));
  PointResult result =
      runner.run(request.options, {.smaller_budget = request.smaller_budget}, sink);
  if (request.options.suggestions && result.failure) {
    result.failure->tried =
        suggest_changes(document, scenario, *runner.model(), environment, result);
  }
  return result;
}

SimulatedPoint failed_row(const Value& document, const std::string& error) {
  SimulatedPoint row;
  if (const Value* name = document.find("name")) row.result.name = name->scalar;
  row.result.status = PointStatus::kError;
  row.result.error = error;
  return row;
}

}  // namespace
}  // namespace simulate_point_detail

void refuse_elastic(const Scenario& scenario) {
  if (!scenario.elastic) return;
  throw UserError(*scenario.elastic, "policies.memory_elastic",
                  "is a study of several steps, which tidemark run simulates; leave it out here");
}

SimulatedPoint simulate_point(const Value& document, Scenario scenario,
                              std::shared_ptr<const TrainedModel> model,
                              const Environment& environment, const PointRequest& request) {
  if (!request.detailed) {
    return {.result = simulate_point_detail::run_once(document, scenario, std::move(model),
                                                      environment, request, {})};
  }
  PointDetail kept;
  PointResult result = simulate_point_detail::run_once(
      document, scenario, std::move(model), environment, request,
      [&](const PointResult&, PointDetail detail) { kept = std::move(detail); });
  auto detail = std::make_shared<const DetailedPoint>(
      DetailedPoint{document, std::move(scenario), result, std::move(kept)});
  return {.result = std::move(result), .detail = std::move(detail)};
}

SimulatedPoint error_row(const Value& document, const UserError& mistake) {
  SimulatedPoint row = simulate_point_detail::failed_row(document, mistake.what());
  row.mistake = mistake;
  return row;
}

SimulatedPoint work_on_point(const Value& base, std::span<const Override> overrides, bool alone,
                             const Environment& environment, SharedModels& models,
                             const PointWork& work) {
  Value document;
  try {
    document = point_document(base, overrides);
    Scenario scenario =
        alone ? decode_alone(document, environment) : decode_scenario(document, environment);
    refuse_elastic(scenario);
    std::shared_ptr<const TrainedModel> model;
    try {
      model = models.of(scenario, document);
      return work(document, std::move(scenario), model);
    } catch (const UserError& error) {
      if (model == nullptr) return error_row(document, error);
      return error_row(document, located(error, document));
    }
  } catch (const UserError& error) {
    if (alone) throw;
    return error_row(document.is_null() ? base : document, error);
  } catch (const InternalError& error) {
    // A fault of one point does not end the others.
    if (alone) throw;
    return simulate_point_detail::failed_row(
        document.is_null() ? base : document,
        fmt::format("internal error, please report it: {}", error.what()));
  }
}

PointResult simulate_alone(const Value& document, const Scenario& scenario,
                           const Environment& environment, const PointRequest& request,
                           const DetailSink& sink) {
  try {
    auto model = std::make_shared<const TrainedModel>(build_training(scenario));
    return simulate_point_detail::run_once(document, scenario, std::move(model), environment,
                                           request, sink);
  } catch (const UserError& error) {
    throw located(error, document);
  }
}

DetailedPoint simulate_in_detail(const Value& document, std::size_t index,
                                 const Environment& environment, const SimulateOptions& options) {
  const Value point = point_document(document, sweep_points(document).at(index));
  DetailedPoint found{.document = point, .scenario = decode_alone(point, environment)};
  refuse_elastic(found.scenario);
  found.result = simulate_alone(
      point, found.scenario, environment, {.options = options},
      [&](const PointResult&, PointDetail detail) { found.detail = std::move(detail); });
  return found;
}

}  // namespace tidemark
