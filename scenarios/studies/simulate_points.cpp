#include "scenarios/studies/simulate_points.hpp"

#include <algorithm>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "graph/core/errors.hpp"
#include "scenarios/read/located_error.hpp"
#include "scenarios/studies/parallel.hpp"
#include "scenarios/studies/shared_models.hpp"
#include "scenarios/studies/shared_runs.hpp"
#include "scenarios/studies/simulate_point.hpp"
#include "scenarios/studies/smaller_budget.hpp"

namespace tidemark {
namespace simulate_points_detail {
namespace {

// A point of a sweep: its document is made when it is simulated.
struct Point {
  std::vector<Override> overrides;
  std::optional<UserError> error;  // reason why an override cannot be applied
};

// Models and runs that the points of a sweep share.
struct Shared {
  SharedModels models;
  SharedRuns runs;
};

// `run_key`, if given, receives the key under which the result may be kept in `shared.runs`; the
// point then takes over the figures of an equal step.
SimulatedPoint run_point(const Value& base, const Point& point, bool alone,
                         const Environment& environment, Shared& shared,
                         const PointRequest& request, std::string* run_key = nullptr) {
  if (point.error) return error_row(base, *point.error);
  return work_on_point(
      base, point.overrides, alone, environment, shared.models,
      [&](const Value& document, Scenario scenario, std::shared_ptr<const TrainedModel> model) {
        if (run_key != nullptr) {
          *run_key = shared_run_key(scenario);
          if (std::optional<PointResult> known = shared.runs.find(*run_key, scenario))
            return SimulatedPoint{.result = std::move(*known), .detail = {}, .mistake = {}};
        }
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
      point.error = error;
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

// Whether two mistakes are one, perhaps at several places.
bool is_same(const std::optional<UserError>& a, const UserError& b) {
  return a && a->path() == b.path() && a->problem() == b.problem();
}

// Passes finished points on, but holds back those that have failed as long as all have failed with
// one and the same mistake: it may be the scenario's, and then none of them is a row.
class FinishedPoints {
 public:
  FinishedPoints(const std::vector<PointResult>& results, const PointsListener& listener)
      : results_(results), listener_(listener) {}

  void add(std::size_t index, const std::optional<UserError>& mistake) {
    if (held_.empty() && !differs_) shared_ = mistake;
    differs_ = differs_ || !shared_ || !is_same(mistake, *shared_);
    held_.push_back(index);
    if (differs_) pass_on();
  }
  void pass_on() {
    for (const std::size_t index : held_) {
      if (listener_.finished) listener_.finished(index, results_[index]);
    }
    held_.clear();
  }
  // Whether all points have finished with one mistake.
  [[nodiscard]] bool share_mistake() const { return !held_.empty(); }

 private:
  const std::vector<PointResult>& results_;
  const PointsListener& listener_;
  std::optional<UserError> shared_;
  bool differs_ = false;
  std::vector<std::size_t> held_;  // in the order in which they finished
};

// Whether a value gives the key that a path below it begins with: a policy of a list, too.
bool gives(const Value& value, std::string_view path) {
  const std::string key(path.substr(0, path.find('.')));
  const auto is_given = [&](const Value& item) {
    return item.is_scalar() ? item.scalar == key : item.find(key) != nullptr;
  };
  if (!value.is_sequence()) return value.find(key) != nullptr;
  return std::any_of(value.items.begin(), value.items.end(), is_given);
}

// Whether a point changes the key at `path`, or what is below it.
bool changes(std::span<const Override> overrides, const std::string& path) {
  return std::any_of(overrides.begin(), overrides.end(), [&](const Override& change) {
    if (change.key == path || change.key.starts_with(path + '.')) return true;
    return path.starts_with(change.key + '.') &&
           gives(change.value, std::string_view(path).substr(change.key.size() + 1));
  });
}

// Throws the mistake of the scenario that is there without the sweep, too, where all points have it
// and none changes its key. `results`: those of the points that are wanted, which have one mistake;
// the others are simulated until one shows that it has none, or another.
void refuse_shared(const std::vector<PointResult>& results, const Value& base,
                   const std::vector<Point>& points, const std::vector<bool>& wanted,
                   const Environment& environment) {
  const PointRequest request{.options = {.smallest_capacity = false}};
  Shared shared;
  const std::optional<UserError> own =
      run_point(base, {}, false, environment, shared, request).mistake;
  if (!own) return;
  const std::string text = own->what();
  // A mistake at the same place is the scenario's, whatever the points change.
  const auto has = [&](const std::string& error, std::span<const Override> overrides) {
    const std::string same = own->path() + ": " + own->problem();
    return error == text ||
           (!own->path().empty() && error.ends_with(same) && !changes(overrides, own->path()));
  };
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (!wanted.empty() && !wanted[i]) {
      const SimulatedPoint other = run_point(base, points[i], false, environment, shared, request);
      if (!is_same(other.mistake, *own) || !has(other.result.error, points[i].overrides)) return;
    } else if (!has(results[i].error, results[i].overrides)) {
      return;
    }
  }
  throw UserError(*own);
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
  simulate_points_detail::Shared shared;
  // A listener that is to receive each run gets none for a point that takes over another's.
  const bool shares_runs = !listener.detail || !listener.every_detail;
  std::vector<PointResult> results(points.size());
  simulate_points_detail::FinishedPoints finished(results, listener);
  std::size_t done = 0;
  std::mutex mutex;
  for_each_parallel(runs.size(), threads, [&](std::size_t r) {
    BudgetRun run;
    for (const std::size_t i : runs[r]) {
      const PointRequest request{.options = options,
                                 .smaller_budget = run.smaller_budget(),
                                 .detailed = static_cast<bool>(listener.detail)};
      std::string run_key;
      SimulatedPoint point = run.better(simulate_points_detail::run_point(
          base, points[i], alone, environment, shared, request, shares_runs ? &run_key : nullptr));
      if (!is_wanted(i)) continue;
      const std::optional<UserError> mistake = alone ? std::nullopt : point.mistake;
      point.result.overrides = std::move(points[i].overrides);
      if (point.detail != nullptr) listener.detail(i, point);
      if (!alone) simulate_points_detail::keep_shown_figures(point.result);
      results[i] = std::move(point.result);
      shared.runs.keep(run_key, results[i]);
      const std::lock_guard lock(mutex);
      ++done;
      finished.add(i, mistake);
      if (listener.progress) listener.progress(done, total);
    }
  });
  if (alone && is_wanted(0) && results[0].status == PointStatus::kError) {
    throw UserError(results[0].error);
  }
  if (finished.share_mistake())
    simulate_points_detail::refuse_shared(results, base, points, wanted, environment);
  finished.pass_on();
  return results;
}

}  // namespace tidemark
