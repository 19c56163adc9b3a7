#include "scenarios/elastic/finder_study.hpp"

#include <utility>

namespace tidemark {
namespace finder_study_detail {
namespace {

// Returns the step in which a run fails, counted from 0; none where it does not.
std::optional<int> failing_step(const PointResult& point) {
  if (point.status == PointStatus::kFits) return std::nullopt;
  if (point.convergence.fails_in) return point.convergence.fails_in;
  return !point.failure ? 0 : point.failure->step;
}

// Returns the time up to the end of the phase in which a run fails.
Duration time_to_failure(const PointResult& point, int step) {
  if (!point.failure) return {};
  Duration time = point.run.step * step;
  for (std::size_t phase = 0; phase <= static_cast<std::size_t>(point.failure->phase); ++phase)
    time += point.run.phase.at(phase);
  return time;
}

FinderTrial trial_of(std::int64_t batch, PointResult point, int steps) {
  FinderTrial trial;
  trial.batch = batch;
  const std::optional<int> fails_in = failing_step(point);
  // A trial of few steps does not see a failure of later ones.
  trial.went_through = !fails_in || (steps > 0 && *fails_in >= steps);
  trial.time = trial.went_through ? point.run.step * steps : time_to_failure(point, *fails_in);
  if (!trial.went_through) {
    trial.reason = point.status == PointStatus::kError ? point.error
                   : point.failure                     ? point.failure->reason
                                                       : std::string(name_of(point.status));
  }
  trial.result = std::move(point);
  return trial;
}

}  // namespace
}  // namespace finder_study_detail

FinderStudy study_finder(const Value& document, const Environment& environment,
                         const FitOptions& options, const BatchFinder& finder) {
  const ValuePoints points(document, environment, options);
  FinderStudy study;
  study.finder = finder;
  bool limited = false;
  const FinderTrials found = find_batch(finder, [&](std::int64_t batch) {
    TriedValue tried = points.simulate(batch, {}, SearchEffort::kTrial);
    limited = limited || tried.limited;
    study.trials.push_back(
        finder_study_detail::trial_of(batch, std::move(tried.result), finder.trial_steps));
    return study.trials.back().went_through;
  });
  study.found = found.found;
  for (const FinderTrial& trial : study.trials) {
    study.time += trial.time;
    if (trial.batch == study.found && !limited)
      study.fits = trial.result.status == PointStatus::kFits;
  }
  if (study.found > 0 && !study.fits) {
    study.fits =
        points.simulate(study.found, {}, SearchEffort::kWhole).result.status == PointStatus::kFits;
  }
  return study;
}

}  // namespace tidemark
