#include "scenarios/studies/search/explore.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "scenarios/studies/parallel.hpp"
#include "scenarios/studies/search/judge.hpp"
#include "scenarios/studies/search/lines.hpp"
#include "scenarios/studies/shared_models.hpp"
#include "scenarios/studies/simulate_point.hpp"
#include "scenarios/studies/smaller_budget.hpp"
#include "sim/step/point_runner.hpp"

namespace tidemark {
namespace explore_detail {
namespace {

// Every point is unknown at first, and excluded or simulated in the end.
class Exploration {
 public:
  Exploration(const SearchSpace& space, const Goal& goal, const Environment& environment,
              int threads, const SearchOptions& options, const PointsListener& listener)
      : space_(space),
        base_(without_sweep(space.document)),
        documents_(space.points),
        goal_(goal),
        environment_(environment),
        threads_(threads),
        options_(options),
        listener_(listener),
        prospects_(documents_.size()),
        simulated_(documents_.size()),
        excluded_(documents_.size(), 0),
        by_smaller_(documents_.size(), 0) {}

  void run(SearchResult& found) {
    simulate_without_bounds();
    if (std::any_of(bounded_.begin(), bounded_.end(), [](char bounded) { return bounded != 0; })) {
      exclude_along_lines();
      bound_by_prices();
      simulate_best_first();
    }
    for (std::size_t i = 0; i < documents_.size(); ++i) {
      if (simulated_[i]) {
        found.points.push_back(std::move(*simulated_[i]));
      } else {
        found.excluded.push_back({.index = i,
                                  .name = space_.names[i],
                                  .overrides = documents_[i].overrides,
                                  .objectives = std::move(prospects_[i].objectives),
                                  .breaks = prospects_[i].breaks,
                                  .by_smaller = by_smaller_[i] != 0});
      }
    }
  }

 private:
  void simulate_without_bounds();
  void bound_by_prices();
  void exclude_along_lines();
  void exclude_along(const std::vector<std::size_t>& line);
  void simulate_best_first();
  void simulate_or_exclude(std::size_t i);
  [[nodiscard]] bool cannot_fit(std::size_t i);
  [[nodiscard]] bool cannot_be_better(const Prospect& prospect) const;
  void add_answer(const SearchPoint& point);
  void settle(std::size_t i, PointResult result);
  void exclude(std::size_t i);
  void report();
  // Builds point i and works on it; a point that cannot be built is settled.
  template <class Work>
  void work_on(std::size_t i, const Work& work);

  const SearchSpace& space_;
  const Value base_;
  const std::vector<PointDocument>& documents_;
  const Goal& goal_;
  const Environment& environment_;
  const int threads_;
  const SearchOptions& options_;
  const PointsListener& listener_;

  SharedModels models_;
  std::vector<char> bounded_;        // points that need not be simulated
  std::vector<Prospect> prospects_;  // of points with bounds
  std::vector<std::optional<SearchPoint>> simulated_;
  std::vector<char> excluded_;
  std::vector<char> by_smaller_;
  // Objectives of simulated points that no other dominates; with one objective, of the best ones.
  std::vector<std::vector<double>> answers_;
  std::mutex mutex_;
  std::size_t done_ = 0;
};

template <class Work>
void Exploration::work_on(std::size_t i, const Work& work) {
  bool settled = false;
  SimulatedPoint row = work_on_point(
      base_, documents_[i].overrides, false, environment_, models_,
      [&](const Value&, Scenario scenario, std::shared_ptr<const TrainedModel> model) {
        PointRunner runner(scenario, std::move(model));
        work(runner);
        settled = true;
        return SimulatedPoint{};
      });
  if (settled) return;
  settle(i, std::move(row.result));
  report();
}

void Exploration::settle(std::size_t i, PointResult result) {
  SearchPoint& point = simulated_[i].emplace();
  point.index = i;
  point.result = std::move(result);
  point.result.overrides = documents_[i].overrides;
  judge(point, goal_, space_.devices[i]);
}

void Exploration::exclude(std::size_t i) {
  excluded_[i] = 1;
  report();
}

void Exploration::report() {
  const std::lock_guard lock(mutex_);
  ++done_;
  if (listener_.progress) listener_.progress(done_, documents_.size());
}

// Points that start from the decisions of others, and those that cannot be read, have no bounds.
void Exploration::simulate_without_bounds() {
  std::vector<bool> wanted(documents_.size(), true);
  if (!options_.every_point && documents_.size() > 1) {
    BudgetRuns all;
    for (const PointDocument& point : documents_)
      all.add(point.error.empty() ? point.document : base_);
    for (const std::vector<std::size_t>& run : all.take()) {
      for (const std::size_t i : run)
        wanted[i] = run.size() > 1;
    }
    for (std::size_t i = 0; i < documents_.size(); ++i) {
      if (space_.devices[i].empty()) wanted[i] = true;
    }
  }
  bounded_.assign(wanted.size(), 0);
  for (std::size_t i = 0; i < wanted.size(); ++i)
    bounded_[i] = wanted[i] ? 0 : 1;
  if (std::find(wanted.begin(), wanted.end(), true) == wanted.end()) return;
  PointsListener listener = listener_;
  listener.progress = [&](std::size_t, std::size_t) { report(); };
  std::vector<PointResult> results = simulate_points(space_.document, environment_, threads_,
                                                     options_.simulation, listener, wanted);
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (!wanted[i]) continue;
    settle(i, std::move(results[i]));
    add_answer(*simulated_[i]);
  }
}

void Exploration::bound_by_prices() {
  for_each_parallel(documents_.size(), threads_, [&](std::size_t i) {
    const bool known = !prospects_[i].objectives.empty();
    if (bounded_[i] == 0 || excluded_[i] != 0 || simulated_[i] || known) return;
    work_on(i, [&](PointRunner& runner) {
      prospects_[i] = prospect_of(runner.bound_by_prices(), goal_, space_.devices[i]);
    });
    if (!simulated_[i] && prospects_[i].breaks) exclude(i);
  });
}

// Whether point i needs more live bytes than its device has; false where it cannot be built.
bool Exploration::cannot_fit(std::size_t i) {
  if (simulated_[i]) return false;
  if (excluded_[i] == 0) {
    work_on(i, [&](PointRunner& runner) {
      prospects_[i] = prospect_of(runner.bound_by_program(), goal_, space_.devices[i]);
    });
    if (simulated_[i] || !prospects_[i].breaks) return false;
    exclude(i);
  }
  return prospects_[i].breaks && !prospects_[i].breaks->constraint;
}

// Finds the first value of a line that cannot fit, by bisection, and takes larger ones not to fit
// either. That live bytes grow is looked at right above it, where a policy that decides otherwise
// would most likely show, and from there to the end; where they do not, nothing is taken for sure.
void Exploration::exclude_along(const std::vector<std::size_t>& line) {
  constexpr std::size_t kNext = 4;
  constexpr std::size_t kSpread = 8;
  std::size_t end = line.size();
  while (end > 0 && !cannot_fit(line[end - 1])) {
    if (!simulated_[line[end - 1]]) return;  // the largest that can be built fits
    --end;
  }
  if (end == 0) return;
  std::size_t begin = 0;  // the first that fails is in [begin, fails]
  std::size_t fails = end - 1;
  while (begin < fails) {
    const std::size_t middle = begin + (fails - begin) / 2;
    if (cannot_fit(line[middle])) {
      fails = middle;
    } else {
      begin = middle + 1;
    }
  }
  const std::size_t above = end - 1 - fails;
  for (std::size_t k = 1; k <= std::min(kNext, above); ++k) {
    if (!cannot_fit(line[fails + k])) return;
  }
  for (std::size_t k = 1; k < kSpread; ++k) {
    if (!cannot_fit(line[fails + k * above / kSpread])) return;
  }
  for (std::size_t k = fails + 1; k < line.size(); ++k) {
    const std::size_t i = line[k];
    if (excluded_[i] != 0 || simulated_[i]) continue;
    prospects_[i].breaks = {.constraint = std::nullopt, .by = std::nan("")};
    by_smaller_[i] = 1;
    exclude(i);
  }
}

void Exploration::exclude_along_lines() {
  std::vector<std::vector<Override>> points;
  for (const PointDocument& point : documents_)
    points.push_back(point.overrides);
  for (const std::string_view key : kGrowing) {
    const std::vector<std::vector<std::size_t>> lines = lines_along(key, points);
    for_each_parallel(lines.size(), threads_, [&](std::size_t l) { exclude_along(lines[l]); });
  }
}

// With one objective, a point is out that is worse than the last of the best that are wanted.
bool Exploration::cannot_be_better(const Prospect& prospect) const {
  if (goal_.objectives.size() > 1) {
    return std::any_of(answers_.begin(), answers_.end(), [&](const auto& answer) {
      return dominates(answer, prospect.objectives, goal_.maximize);
    });
  }
  return answers_.size() >= options_.answers &&
         dominates(answers_.back(), prospect.objectives, goal_.maximize);
}

void Exploration::add_answer(const SearchPoint& point) {
  if (!point.feasible) return;
  answers_.push_back(point.objectives);
  const bool maximize = goal_.maximize;
  if (goal_.objectives.size() > 1) {
    std::erase_if(answers_, [&](const auto& answer) {
      return dominates(point.objectives, answer, maximize);
    });
    return;
  }
  std::sort(answers_.begin(), answers_.end(),
            [&](const auto& a, const auto& b) { return maximize ? a > b : a < b; });
  if (answers_.size() > options_.answers) answers_.pop_back();
}

// Compiles a point, and runs it if it may be an answer.
void Exploration::simulate_or_exclude(std::size_t i) {
  work_on(i, [&](PointRunner& runner) {
    prospects_[i] = prospect_of(runner.bound_by_program(), goal_, space_.devices[i]);
    if (prospects_[i].breaks || cannot_be_better(prospects_[i])) {
      exclude(i);
    } else {
      settle(i, runner.run(options_.simulation));
      report();
    }
  });
}

// Simulates the points that promise most, a few at a time: what they show excludes others. How many
// does not depend on the threads, so that neither do the points that are simulated.
void Exploration::simulate_best_first() {
  constexpr std::size_t kFirst = 4;
  constexpr std::size_t kMost = 64;
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < documents_.size(); ++i) {
    if (bounded_[i] != 0 && excluded_[i] == 0 && !simulated_[i]) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    const std::vector<double>& left = prospects_[a].objectives;
    const std::vector<double>& right = prospects_[b].objectives;
    return goal_.maximize ? left > right : left < right;
  });
  std::size_t most = kFirst;
  for (std::size_t next = 0; next < order.size(); most = std::min(2 * most, kMost)) {
    std::vector<std::size_t> batch;
    for (; next < order.size() && batch.size() < most; ++next) {
      const std::size_t i = order[next];
      if (cannot_be_better(prospects_[i])) {
        exclude(i);
      } else {
        batch.push_back(i);
      }
    }
    for_each_parallel(batch.size(), threads_,
                      [&](std::size_t k) { simulate_or_exclude(batch[k]); });
    for (const std::size_t i : batch) {
      if (simulated_[i]) add_answer(*simulated_[i]);
    }
  }
}

}  // namespace
}  // namespace explore_detail

void explore(const SearchSpace& space, SearchResult& found, const Environment& environment,
             int threads, const SearchOptions& options, const PointsListener& listener) {
  explore_detail::Exploration(space, found.goal, environment, threads, options, listener)
      .run(found);
}

}  // namespace tidemark
