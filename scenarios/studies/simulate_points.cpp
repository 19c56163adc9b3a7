#include "scenarios/studies/simulate_points.hpp"

#include <algorithm>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "graph/core/errors.hpp"
#include "scenarios/read/located_error.hpp"
#include "scenarios/studies/parallel.hpp"
#include "scenarios/studies/shared_models.hpp"
#include "scenarios/studies/simulate_point.hpp"
#include "scenarios/studies/smaller_budget.hpp"

namespace tidemark {
namespace simulate_points_detail {
namespace {

// A point of a sweep: its document is made when it is simulated.
struct Point {
  std::vector<Override> overrides;
  std::string error;  // reason why it cannot be read; empty where nobody has looked
};

SimulatedPoint run_point(const Value& base, const Point& point, bool alone,
                         const Environment& environment, SharedModels& models,
                         const PointRequest& request) {
  if (!point.error.empty()) return error_row(base, point.error);
  return work_on_point(
      base, point.overrides, alone, environment, models,
      [&](const Value& document, Scenario scenario, std::shared_ptr<const TrainedModel> model) {
        return simulate_point(document, std::move(scenario), std::move(model), environment,
                              request);
      });
}

// Returns budget_runs() of the points, each up to its last member that is wanted, and notes the
// points whose overrides cannot be applied.
std::vector<std::vector<std::size_t>> wanted_runs(const Value& base, std::vector<Point>& points,
                                                  const std::vector<bool>& wanted) {
  BudgetRuns all;
  for (Point& point : points) {
    try {
      all.add(point_document(base, point.overrides));
    } catch (const UserError& error) {
      point.error = error.what();
      all.add(base);
    }
  }
  std::vector<std::vector<std::size_t>> runs = all.take();
  for (std::vector<std::size_t>& run : runs) {
    while (!wanted.empty() && !run.empty() && !wanted[run.back()])
      run.pop_back();
  }
  return runs;
}

// Drops what no document, table or page of several points shows: what is kept of each of ten
// thousand counts.
void keep_shown_figures(PointResult& point) {
  std::vector<std::pair<std::string, Bytes>>& layers = point.peak.by_layer;
  if (layers.size() > kLargestLayers) layers.resize(kLargestLayers);
  layers.shrink_to_fit();
  point.peak.largest.shrink_to_fit();
  point.passes = {};
  for (StageResult& stage : point.stages)
    keep_shown_figures(stage.point);
}

// Throws the mistake of the scenario that is there without the sweep, too, where all points have
// it, wanted or not. Points are read until one shows that they do not.
void check_base(const Value& base, const std::vector<Point>& points,
                const Environment& environment) {
  std::optional<std::string> shared;
  for (const Point& point : points) {
    std::string error = point.error;
    if (error.empty()) {
      try {
        refuse_elastic(decode_scenario(point_document(base, point.overrides), environment));
      } catch (const UserError& mistake) {
        error = mistake.what();
      }
    }
    if (error.empty() || (shared && *shared != error)) return;
    shared = std::move(error);
  }
  if (!shared) return;
  try {
    static_cast<void>(decode_scenario(base, environment));
  } catch (const UserError& error) {
    if (error.what() == *shared) throw;
  }
}

}  // namespace
}  // namespace simulate_points_detail

PointDocument make_point_document(const Value& base, std::vector<Override> overrides) {
  PointDocument point{base, std::move(overrides), {}};
  try {
    point.document = point_document(base, point.overrides);
  } catch (const UserError& error) {
    point.error = error.what();
  }
  return point;
}

std::vector<PointDocument> point_documents(const Value& document) {
  const Value base = without_sweep(document);
  std::vector<PointDocument> points;
  for (std::vector<Override>& overrides : sweep_points(document))
    points.push_back(make_point_document(base, std::move(overrides)));
  return points;
}

std::vector<PointResult> simulate_points(const Value& document, const Environment& environment,
                                         int threads, const SimulateOptions& options,
                                         const PointsListener& listener,
                                         const std::vector<bool>& wanted) {
  const Value base = without_sweep(document);
  std::vector<simulate_points_detail::Point> points;
  for (std::vector<Override>& overrides : sweep_points(document))
    points.push_back({.overrides = std::move(overrides), .error = {}});
  const bool alone = points.size() == 1;
  const auto is_wanted = [&](std::size_t i) { return wanted.empty() || wanted[i]; };
  const std::vector<std::vector<std::size_t>> runs =
      simulate_points_detail::wanted_runs(base, points, wanted);
  const auto total = wanted.empty()
                         ? points.size()
                         : static_cast<std::size_t>(std::count(wanted.begin(), wanted.end(), true));
  if (!alone) simulate_points_detail::check_base(base, points, environment);
  SharedModels models;
  std::vector<PointResult> results(points.size());
  std::size_t done = 0;
  std::mutex mutex;
  for_each_parallel(runs.size(), threads, [&](std::size_t r) {
    BudgetRun run;
    for (const std::size_t i : runs[r]) {
      const PointRequest request{.options = options,
                                 .smaller_budget = run.smaller_budget(),
                                 .detailed = static_cast<bool>(listener.detail)};
      SimulatedPoint point = run.better(
          simulate_points_detail::run_point(base, points[i], alone, environment, models, request));
      if (!is_wanted(i)) continue;
      point.result.overrides = std::move(points[i].overrides);
      if (point.detail != nullptr) listener.detail(i, point);
      if (!alone) simulate_points_detail::keep_shown_figures(point.result);
      results[i] = std::move(point.result);
      const std::lock_guard lock(mutex);
      ++done;
      if (listener.finished) listener.finished(i, results[i]);
      if (listener.progress) listener.progress(done, total);
    }
  });
  if (alone && is_wanted(0) && results[0].status == PointStatus::kError) {
    throw UserError(results[0].error);
  }
  return results;
}

}  // namespace tidemark
