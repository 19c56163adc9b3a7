#include "scenarios/studies/simulate_points.hpp"

#include <atomic>
#include <mutex>
#include <unordered_map>

#include <fmt/format.h>

#include "graph/core/errors.hpp"
#include "scenarios/read/document_json.hpp"
#include "scenarios/read/located_error.hpp"
#include "scenarios/studies/parallel.hpp"
#include "scenarios/studies/smaller_budget.hpp"
#include "scenarios/studies/suggestions.hpp"

namespace tidemark {
namespace {

// A model that several points share: built by the first that needs it, dropped by the last.
struct SharedModel {
  std::once_flag built;
  std::unique_ptr<const TrainedModel> model;
  std::string error;
  std::atomic<int> users{0};
};

struct Point {
  std::vector<Override> overrides;
  std::optional<Scenario> scenario;
  std::string error;
  SharedModel* shared = nullptr;
};

PointResult error_row(const Value& document, const std::string& error) {
  PointResult row;
  if (const Value* name = document.find("name")) row.name = name->scalar;
  row.status = PointStatus::kError;
  row.error = error;
  return row;
}

// `document` as the point has it.
PointResult run_point(Point& point, const Value& document, const Environment& environment,
                      const SimulateOptions& options,
                      const std::vector<PolicyOutcome>* smaller_budget) {
  if (!point.scenario) return error_row(document, point.error);
  SharedModel& shared = *point.shared;
  std::call_once(shared.built, [&] {
    try {
      shared.model = std::make_unique<const TrainedModel>(build_training(*point.scenario));
    } catch (const UserError& error) {
      shared.error = located(error, document).what();
    }
  });
  PointResult row;
  if (shared.model == nullptr) {
    row = error_row(document, shared.error);
  } else {
    try {
      row = simulate(*point.scenario, *shared.model,
                     compile(*point.scenario, *shared.model, {.smaller_budget = smaller_budget}),
                     options);
      if (options.suggestions && row.failure) {
        row.failure->tried =
            suggest_changes(document, *point.scenario, *shared.model, environment, row);
      }
    } catch (const UserError& error) {
      row = error_row(document, located(error, document).what());
    }
  }
  if (--shared.users == 0) shared.model.reset();
  return row;
}

}  // namespace

std::vector<PointDocument> point_documents(const Value& document) {
  Value base = document;
  std::erase_if(base.entries, [](const Value::Entry& entry) { return entry.key == "sweep"; });
  std::vector<PointDocument> points;
  for (std::vector<Override>& overrides : sweep_points(document)) {
    PointDocument& point = points.emplace_back(PointDocument{base, std::move(overrides), {}});
    try {
      for (const Override& change : point.overrides)
        apply_override(point.document, change);
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
  std::vector<Point> points;
  std::vector<Value> documents;
  for (PointDocument& point : point_documents(document)) {
    documents.push_back(std::move(point.document));
    points.push_back({.overrides = std::move(point.overrides), .error = std::move(point.error)});
  }
  const auto is_wanted = [&](std::size_t i) { return wanted.empty() || wanted[i]; };
  std::vector<std::vector<std::size_t>> runs = budget_runs(documents);
  std::size_t total = 0;
  for (std::vector<std::size_t>& run : runs) {
    while (!run.empty() && !is_wanted(run.back()))
      run.pop_back();
    for (const std::size_t i : run)
      total += is_wanted(i) ? 1U : 0U;
  }

  std::unordered_map<std::string, std::unique_ptr<SharedModel>> models;
  for (const std::vector<std::size_t>& run : runs) {
    for (const std::size_t i : run) {
      Point& point = points[i];
      if (!point.error.empty()) continue;
      try {
        point.scenario.emplace(decode_scenario(documents[i], environment));
      } catch (const UserError& error) {
        if (points.size() == 1) throw;
        point.error = error.what();
        continue;
      }
      std::unique_ptr<SharedModel>& model = models[point.scenario->training_key];
      if (model == nullptr) model = std::make_unique<SharedModel>();
      ++model->users;
      point.shared = model.get();
    }
  }

  std::vector<PointResult> results(points.size());
  std::size_t done = 0;
  std::mutex mutex;
  for_each_parallel(runs.size(), threads, [&](std::size_t r) {
    BudgetRun run;
    for (const std::size_t i : runs[r]) {
      PointResult result = run.better(
          run_point(points[i], documents[i], environment, options, run.smaller_budget()));
      points[i].scenario.reset();
      if (!is_wanted(i)) continue;
      for (const Override& change : points[i].overrides)
        result.overrides.emplace_back(change.key, as_json(change.value));
      results[i] = std::move(result);
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
