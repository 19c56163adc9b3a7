#include "scenarios/studies/trials.hpp"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "scenarios/read/global_batch.hpp"
#include "scenarios/read/short_form.hpp"
#include "sim/step/simulate_stages.hpp"
#include "sim/step/step_device.hpp"

namespace tidemark {
namespace trials_detail {
namespace {

// A scenario with a candidate, and the model that it trains.
class ChangedPoint {
 public:
  ChangedPoint(const Value& document, const OriginalPoint& original)
      : original_(original), scenario_(trial_scenario(document, original.environment)) {
    if (scenario_.training_key != original.scenario.training_key)
      built_.emplace(build_training(scenario_));
  }

  [[nodiscard]] const Scenario& scenario() const { return scenario_; }

  // Simulates it; `compiled`, if given, is its program.
  [[nodiscard]] PointResult simulate(const Compiled* compiled) const {
    const SimulateOptions options{
        .smallest_capacity = scenario_.allocator->traits().grows_by_doubling,
        .convergence_limit = kConvergenceLimit,
        .largest_tensors = 0};
    if (compiled != nullptr) return tidemark::simulate(scenario_, model(), *compiled, options);
    return tidemark::simulate(scenario_, model(), options);
  }

  // Returns the figures of the stage that was the fullest in the original, if it cannot fit.
  // Nothing otherwise, and without stages.
  [[nodiscard]] std::optional<RunResult> too_large_stage() const {
    const std::size_t stage = fullest_stage(original_.result.stages);
    if (stage >= model().stages.size()) return std::nullopt;
    // Regions that double take more without a limit than they need.
    if (scenario_.allocator->traits().grows_by_doubling) return std::nullopt;
    return run_of_too_large_stage(scenario_, *model().stages[stage]);
  }

 private:
  [[nodiscard]] const TrainedModel& model() const { return built_ ? *built_ : original_.model; }

  const OriginalPoint& original_;
  Scenario scenario_;
  std::optional<TrainedModel> built_;
};

// Returns a setting per measure, and DeepSpeed's configuration for those that need it; empty where
// one of the measures cannot be had.
std::vector<std::string> for_hugging_face(const Candidate& candidate) {
  std::vector<std::string> lines;
  for (const Measure& measure : candidate) {
    if (trainer_lacks(measure, candidate)) return {};
    if (!measure.hugging_face.empty()) lines.push_back(measure.hugging_face);
  }
  std::string deepspeed = deepspeed_argument(candidate);
  if (!deepspeed.empty()) lines.push_back(std::move(deepspeed));
  return lines;
}

std::vector<std::string> for_pytorch(const Candidate& candidate) {
  std::vector<std::string> lines;
  for (const Measure& measure : candidate) {
    if (measure.pytorch.empty()) return {};
    lines.push_back(measure.pytorch);
  }
  return lines;
}

// Describes what the measures of a candidate come to.
Suggestion described(const Candidate& candidate, std::vector<Override> overrides) {
  Suggestion result{.overrides = std::move(overrides)};
  std::vector<std::string> texts;
  for (const Measure& measure : candidate) {
    texts.push_back(measure.text);
    result.changes_numbers = result.changes_numbers || measure.changes_numbers();
  }
  result.change = fmt::format("{}", fmt::join(texts, " + "));
  result.pytorch = for_pytorch(candidate);
  result.hugging_face = for_hugging_face(candidate);
  return result;
}

// Fills in what the simulated candidate comes to.
void fill_figures(Suggestion& result, const PointResult& point) {
  result.fits = point.status == PointStatus::kFits;
  result.status = point.run.status;
  result.device_used = point.device_used();
  // Without a limit the allocator would have taken regions that double.
  if (!result.fits && point.smallest_capacity.count > 0)
    result.device_used = point.smallest_capacity;
  result.peak_live = point.run.live.bytes;
  result.peak_reserved = point.run.reserved.bytes;
  result.step = point.run.step;
  result.samples_per_second = point.samples_per_second;
  result.tokens_per_second = point.tokens_per_second;
}

}  // namespace
}  // namespace trials_detail

std::int64_t operators_of(const TrainedModel& model) {
  std::size_t operators = model.training.operators.size();
  if (!model.stages.empty()) operators = 0;
  for (const std::shared_ptr<const TrainedModel>& stage : model.stages)
    operators += stage->training.operators.size();
  return static_cast<std::int64_t>(operators);
}

Trials::Trials(const Measures& measures, const OriginalPoint& original)
    : measures_(measures),
      original_(original),
      operators_(operators_of(original.model) *
                 std::max<std::int64_t>(original.scenario.training.accumulate, 1)) {}

bool Trials::run(const Candidate& candidate, const Compiled* compiled) {
  try {
    Suggestion result = trials_detail::described(candidate, measures_.overrides(candidate));
    Value document = original_.document;
    for (const Override& change : result.overrides)
      apply_override(document, change);
    const trials_detail::ChangedPoint changed(document, original_);
    if (const std::optional<RunResult> stage = changed.too_large_stage()) {
      result.status = RunStatus::kOutOfMemory;
      result.device_used = stage->reserved.bytes + process_overhead(changed.scenario());
      result.peak_live = stage->live.bytes;
      result.peak_reserved = stage->reserved.bytes;
    } else {
      trials_detail::fill_figures(result, changed.simulate(compiled));
    }
    Tried& tried = tried_.emplace_back(Tried{{}, std::move(result)});
    for (const Measure& measure : candidate)
      tried.kinds.push_back(measure.kind);
    return tried.suggestion.fits;
  } catch (const UserError&) {
    return false;
  } catch (const InternalError&) {
    // The user asked about the scenario, not about this change of it: its answer stands.
    return false;
  }
}

bool Trials::seems_to_fit(const Candidate& candidate) const {
  constexpr std::int64_t kShown = 2;
  try {
    Value document = point_document(original_.document, measures_.overrides(candidate));
    // As many micro-batches are in flight as the pipeline has stages.
    if (!original_.model.stages.empty())
      return !trials_detail::ChangedPoint(document, original_).too_large_stage();
    if (trial_scenario(document, original_.environment).training.accumulate > kShown) {
      document = without_global_batch(std::move(document));
      apply_override(document,
                     {"training.accumulate", text_value(fmt::to_string(kShown), Location{})});
    }
    const trials_detail::ChangedPoint changed(document, original_);
    return changed.simulate(nullptr).status == PointStatus::kFits;
  } catch (const UserError&) {
    return false;
  } catch (const InternalError&) {
    return false;
  }
}

bool Trials::less_fits(const Candidate& candidate) const {
  return std::any_of(tried_.begin(), tried_.end(), [&](const Tried& tried) {
    return tried.suggestion.fits &&
           std::all_of(tried.kinds.begin(), tried.kinds.end(),
                       [&](MeasureKind kind) { return takes(candidate, kind); });
  });
}

bool Trials::unchanged_fits() const {
  return std::any_of(tried_.begin(), tried_.end(), [](const Tried& tried) {
    return tried.suggestion.fits && !tried.suggestion.changes_numbers;
  });
}

bool Trials::fits_alone(MeasureKind kind) const {
  return std::any_of(tried_.begin(), tried_.end(), [&](const Tried& tried) {
    return tried.suggestion.fits && tried.kinds == std::vector{kind};
  });
}

void Trials::drop_from(std::size_t first, std::size_t kept, bool failures) {
  std::vector<Tried> remaining;
  for (std::size_t i = 0; i < tried_.size(); ++i) {
    if (i < first || i == kept || (failures && !tried_[i].suggestion.fits))
      remaining.push_back(std::move(tried_[i]));
  }
  tried_ = std::move(remaining);
}

std::vector<Suggestion> Trials::ranked() && {
  std::vector<Suggestion> suggestions;
  for (Tried& tried : tried_)
    suggestions.push_back(std::move(tried.suggestion));
  const auto failing = std::stable_partition(suggestions.begin(), suggestions.end(),
                                             [](const Suggestion& s) { return s.fits; });
  std::stable_sort(suggestions.begin(), failing, [](const Suggestion& a, const Suggestion& b) {
    return a.samples_per_second > b.samples_per_second;
  });
  return suggestions;
}

}  // namespace tidemark
