#include "scenarios/studies/simulate_points.hpp"

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>

#include "graph/core/errors.hpp"
#include "scenarios/read/located_error.hpp"
#include "scenarios/studies/parallel.hpp"
#include "scenarios/studies/simulate_point.hpp"
#include "scenarios/studies/smaller_budget.hpp"

namespace tidemark {
namespace simulate_points_detail {
namespace {

// A model that several points share: built by the first that needs it, freed by the last.
struct SharedModel {
  std::once_flag built;
  std::shared_ptr<const TrainedModel> model;
  std::string error;
  std::atomic<int> users{0};
};

struct Point {
  Value document;
  std::vector<Override> overrides;
  std::optional<Scenario> scenario;
  std::string error;
  SharedModel* shared = nullptr;
};

SimulatedPoint error_row(const Value& document, const std::string& error) {
  SimulatedPoint row;
  if (const Value* name = document.find("name")) row.result.name = name->scalar;
  row.result.status = PointStatus::kError;
  row.result.error = error;
  return row;
}

// Returns the point's model, or null where it cannot be built.
std::shared_ptr<const TrainedModel> model_of(const Point& point) {
  SharedModel& shared = *point.shared;
  std::call_once(shared.built, [&] {
    try {
      shared.model = std::make_shared<const TrainedModel>(build_training(*point.scenario));
    } catch (const UserError& error) {
      shared.error = located(error, point.document).what();
    }
  });
  return shared.model;
}

// Simulates a point and frees its scenario.
SimulatedPoint run_point(Point& point, const Environment& environment,
                         const PointRequest& request) {
  if (!point.scenario) return error_row(point.document, point.error);
  SharedModel& shared = *point.shared;
  std::shared_ptr<const TrainedModel> model = model_of(point);
  SimulatedPoint row;
  if (model == nullptr) {
    row = error_row(point.document, shared.error);
  } else {
    try {
      row = simulate_point(point.document, *std::move(point.scenario), std::move(model),
                           environment, request);
    } catch (const UserError& error) {
      row = error_row(point.document, located(error, point.document).what());
    }
  }
  point.scenario.reset();
  if (--shared.users == 0) shared.model.reset();
  return row;
}

// Returns the points of a sweep, read but not simulated.
std::vector<Point> points_of(const Value& document) {
  std::vector<Point> points;
  for (PointDocument& point : point_documents(document)) {
    points.push_back({.document = std::move(point.document),
                      .overrides = std::move(point.overrides),
                      .error = std::move(point.error)});
  }
  return points;
}

// Returns budget_runs() of the points, each up to its last member that is wanted.
std::vector<std::vector<std::size_t>> wanted_runs(const std::vector<Point>& points,
                                                  const std::vector<bool>& wanted) {
  std::vector<Value> documents;
  documents.reserve(points.size());
  for (const Point& point : points)
    documents.push_back(point.document);
  std::vector<std::vector<std::size_t>> runs = budget_runs(documents);
  for (std::vector<std::size_t>& run : runs) {
    while (!wanted.empty() && !run.empty() && !wanted[run.back()])
      run.pop_back();
  }
  return runs;
}

using SharedModels = std::unordered_map<std::string, std::unique_ptr<SharedModel>>;

// Reads a point and notes which model it shares. A mistake is the point's error, or thrown where
// there is only one point.
void decode_point(Point& point, bool alone, const Environment& environment, SharedModels& models) {
  if (!point.error.empty()) return;
  try {
    point.scenario.emplace(decode_scenario(point.document, environment));
    refuse_elastic(*point.scenario);
  } catch (const UserError& error) {
    if (alone) throw;
    point.error = error.what();
    return;
  }
  std::unique_ptr<SharedModel>& model = models[point.scenario->training_key];
  if (model == nullptr) model = std::make_unique<SharedModel>();
  ++model->users;
  point.shared = model.get();
}

// Throws the mistake of the scenario that is there without the sweep, too, where all the points
// that are wanted have it.
void check_base(const Value& document, const std::vector<Point>& points,
                const std::vector<bool>& wanted, const Environment& environment) {
  const auto is_wanted = [&](std::size_t i) { return wanted.empty() || wanted[i]; };
  const std::string* shared = nullptr;
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (!is_wanted(i)) continue;
    if (points[i].error.empty() || (shared != nullptr && *shared != points[i].error)) return;
    shared = &points[i].error;
  }
  if (shared == nullptr) return;
  try {
    static_cast<void>(decode_scenario(without_sweep(document), environment));
  } catch (const UserError& error) {
    if (error.what() == *shared) throw;
  }
}

}  // namespace
}  // namespace simulate_points_detail

std::vector<PointDocument> point_documents(const Value& document) {
  const Value base = without_sweep(document);
  std::vector<PointDocument> points;
  for (std::vector<Override>& overrides : sweep_points(document)) {
    PointDocument& point = points.emplace_back(PointDocument{base, std::move(overrides), {}});
    try {
      point.document = point_document(base, point.overrides);
    } catch (const UserError& error) {
      point.error = error.what();
    }
  }
  return points;
}

std::vector<PointResult> simulate_points(const Value& document, const Environment& environment,
                                         int threads, const SimulateOptions& options,
                                         const PointsListener& listener,
                                         const std::vector<bool>& wanted) {
  std::vector<simulate_points_detail::Point> points = simulate_points_detail::points_of(document);
  const auto is_wanted = [&](std::size_t i) { return wanted.empty() || wanted[i]; };
  const std::vector<std::vector<std::size_t>> runs =
      simulate_points_detail::wanted_runs(points, wanted);
  simulate_points_detail::SharedModels models;
  std::size_t total = 0;
  for (const std::vector<std::size_t>& run : runs) {
    for (const std::size_t i : run) {
      simulate_points_detail::decode_point(points[i], points.size() == 1, environment, models);
      total += is_wanted(i) ? 1U : 0U;
    }
  }

  simulate_points_detail::check_base(document, points, wanted, environment);
  std::vector<PointResult> results(points.size());
  std::size_t done = 0;
  std::mutex mutex;
  for_each_parallel(runs.size(), threads, [&](std::size_t r) {
    BudgetRun run;
    for (const std::size_t i : runs[r]) {
      const PointRequest request{.options = options,
                                 .smaller_budget = run.smaller_budget(),
                                 .detailed = static_cast<bool>(listener.detail)};
      SimulatedPoint point =
          run.better(simulate_points_detail::run_point(points[i], environment, request));
      if (!is_wanted(i)) continue;
      point.result.overrides = std::move(points[i].overrides);
      if (point.detail != nullptr) listener.detail(i, point);
      results[i] = std::move(point.result);
      const std::lock_guard lock(mutex);
      ++done;
      if (listener.finished) listener.finished(i, results[i]);
      if (listener.progress) listener.progress(done, total);
    }
  });
  if (points.size() == 1 && is_wanted(0) && results[0].status == PointStatus::kError) {
    throw UserError(results[0].error);
  }
  return results;
}

}  // namespace tidemark
