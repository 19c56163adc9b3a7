#include "scenarios/studies/suggestions.hpp"

#include <algorithm>
#include <functional>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "scenarios/read/global_batch.hpp"
#include "scenarios/read/short_form.hpp"
#include "scenarios/studies/measures/measures.hpp"

namespace tidemark {
namespace suggestions_detail {
namespace {

// A candidate is a list of measures that are taken together.
using Candidate = std::vector<Measure>;

struct Tried {
  std::vector<MeasureKind> kinds;
  Suggestion suggestion;
};

// The scenario on which candidates are tried, and its result.
struct Original {
  const Value& document;
  const Scenario& scenario;
  const TrainedModel& model;
  const Environment& environment;
};

PointResult simulate_changed(const Scenario& changed, const Original& original,
                             const Compiled* compiled) {
  const SimulateOptions options{.smallest_capacity = changed.allocator->traits().grows_by_doubling,
                                .convergence_limit = kConvergenceLimit,
                                .largest_tensors = 0};
  if (compiled != nullptr) return simulate(changed, original.model, *compiled, options);
  const bool same_model = changed.training_key == original.scenario.training_key;
  return same_model ? simulate(changed, original.model, options)
                    : simulate(changed, build_training(changed), options);
}

// Returns a setting per measure, and DeepSpeed's configuration for those that need it; empty where
// one of the measures cannot be had.
std::vector<std::string> for_hugging_face(const Candidate& candidate) {
  std::vector<std::string> lines;
  for (const Measure& measure : candidate) {
    if (measure.hugging_face.empty() && measure.deepspeed.empty()) return {};
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

// Tries measures and keeps what came of each.
class Trials {
 public:
  Trials(const Measures& measures, const Original& original)
      : measures_(measures), original_(original) {}

  // Simulates the scenario with a candidate, unless it is not legal here. Returns whether it fits.
  // `compiled`, if given, is the program of both.
  bool run(const Candidate& candidate, const Compiled* compiled = nullptr);
  // Returns whether the scenario with a candidate fits as far as two of its micro-batches show: the
  // third takes no other memory than the second. Nothing is kept of it.
  [[nodiscard]] bool seems_to_fit(const Candidate& candidate) const;
  // Returns whether something fits that takes some of these measures, or all of them.
  [[nodiscard]] bool less_fits(const Candidate& candidate) const;
  // Returns whether something fits that leaves the numbers as they are.
  [[nodiscard]] bool unchanged_fits() const;
  // Returns whether a single measure of this kind fits.
  [[nodiscard]] bool fits_alone(MeasureKind kind) const;

  // Drops what was tried from the `first` on, but for the one at `kept` and, where `failures` is
  // set, what does not fit.
  void drop_from(std::size_t first, std::size_t kept, bool failures);
  [[nodiscard]] std::size_t size() const { return tried_.size(); }
  // Returns everything that was tried: what fits, fastest first, then the rest.
  [[nodiscard]] std::vector<Suggestion> ranked() &&;

 private:
  const Measures& measures_;
  const Original& original_;
  std::vector<Tried> tried_;
};

bool Trials::run(const Candidate& candidate, const Compiled* compiled) {
  try {
    Suggestion result = described(candidate, measures_.overrides(candidate));
    Value document = original_.document;
    for (const Override& change : result.overrides)
      apply_override(document, change);
    const Scenario changed = trial_scenario(document, original_.environment);
    const PointResult point = simulate_changed(changed, original_, compiled);
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
    Scenario changed = trial_scenario(document, original_.environment);
    if (changed.training.accumulate > kShown) {
      document = without_global_batch(std::move(document));
      apply_override(document,
                     {"training.accumulate", text_value(fmt::to_string(kShown), Location{})});
      changed = trial_scenario(document, original_.environment);
    }
    return simulate_changed(changed, original_, nullptr).status == PointStatus::kFits;
  } catch (const UserError&) {
    return false;
  } catch (const InternalError&) {
    return false;
  }
}

bool Trials::less_fits(const Candidate& candidate) const {
  const auto has = [&](MeasureKind kind) {
    return std::any_of(candidate.begin(), candidate.end(),
                       [&](const Measure& measure) { return measure.kind == kind; });
  };
  return std::any_of(tried_.begin(), tried_.end(), [&](const Tried& tried) {
    return tried.suggestion.fits && std::all_of(tried.kinds.begin(), tried.kinds.end(), has);
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

// Tries the measures one by one up to the first that fits. Returns whether one does. `compiled`, if
// given, is the program that all of them leave as it is.
bool try_in_turn(Trials& trials, std::vector<Measure> measures, const Compiled* compiled) {
  return std::any_of(measures.begin(), measures.end(),
                     [&](Measure& measure) { return trials.run({std::move(measure)}, compiled); });
}

// Operators that a suggested step runs at most, over its micro-batches: simulating a million of
// them takes about four seconds with the steps that show whether it converges.
constexpr std::int64_t kMostOperators = 250'000;

// Bisects for the largest smaller micro-batch that fits together with `others`; keeps it and the
// next larger one. Steps of very many micro-batches are not tried: the answer would take longer
// than the question is worth.
void search_micro_batch(Trials& trials, const Measures& measures, const Candidate& others,
                        const Original& original) {
  std::vector<std::int64_t> sizes = measures.smaller_micro_batches();
  const std::int64_t samples =
      original.scenario.training.model.micro_batch * original.scenario.training.accumulate;
  const auto operators = static_cast<std::int64_t>(original.model.training.operators.size());
  std::erase_if(sizes, [&](std::int64_t size) {
    return samples / size > std::max<std::int64_t>(kMostOperators / operators, 1);
  });
  const auto with = [&](std::size_t i) {
    Candidate candidate = others;
    candidate.push_back(measures.micro_batch(sizes[i]));
    return candidate;
  };
  if (sizes.empty() || !trials.seems_to_fit(with(0))) return;
  std::size_t low = 0;
  std::size_t high = sizes.size();
  while (high - low > 1) {
    const std::size_t middle = low + (high - low) / 2;
    (trials.seems_to_fit(with(middle)) ? low : high) = middle;
  }
  // All micro-batches of what is suggested are simulated.
  constexpr std::size_t kTries = 3;
  const std::size_t first = trials.size();
  std::size_t best = first;
  const std::size_t top = std::min(high, sizes.size() - 1);
  for (std::size_t i = top + 1; i-- > 0 && top - i < kTries;) {
    if (!trials.run(with(i))) continue;
    best = trials.size() - 1;
    break;
  }
  trials.drop_from(first, best, true);
}

// Bisects for the least of 1 .. `all` - 1 with which a measure that helps as a whole still fits:
// more of it takes less memory.
void search_least(Trials& trials, const std::function<Measure(std::int64_t)>& measure,
                  std::int64_t all) {
  const std::size_t first = trials.size();
  std::optional<std::size_t> least;
  std::int64_t fails = 0;
  std::int64_t fits = all;
  while (fits - fails > 1) {
    const std::int64_t middle = fails + (fits - fails) / 2;
    const bool helps = trials.run({measure(middle)});
    (helps ? fits : fails) = middle;
    if (helps) least = trials.size() - 1;
  }
  trials.drop_from(first, least.value_or(trials.size()), false);
}

// Tries less of what fits: recomputing every block or offloading everything may be too much.
void search_least_policies(Trials& trials, const Measures& measures, std::int64_t blocks) {
  constexpr std::int64_t kPercent = 5;  // offloaded parts are multiples of it
  if (trials.fits_alone(MeasureKind::kRecompute)) {
    search_least(
        trials, [&](std::int64_t count) { return measures.recompute_first(count); }, blocks);
  }
  if (trials.fits_alone(MeasureKind::kOffloadActivations)) {
    search_least(
        trials, [&](std::int64_t part) { return measures.offload_part(part * kPercent); },
        100 / kPercent);
  }
  if (trials.fits_alone(MeasureKind::kOffloadOptimizer)) {
    search_least(
        trials, [&](std::int64_t part) { return measures.offload_optimizer_part(part * kPercent); },
        100 / kPercent);
  }
}

// Returns whether the memory that stays on the device in every step fits, whatever is done about
// activations.
bool model_fits(const Scenario& scenario, const PointResult& point) {
  // Policies may move or divide that memory.
  if (!scenario.policy_names.empty()) return true;
  return point.model_bytes() + point.context <= point.capacity;
}

// Tries changes that leave the numbers of training as they are, and their combinations; without
// `activations_suffice` only those that move states.
void try_policies(Trials& trials, const Measures& measures, bool activations_suffice) {
  const std::optional<Measure> recompute = measures.recompute();
  const std::optional<Measure> activations = measures.offload_activations();
  const std::optional<Measure> states = measures.offload_optimizer();
  const std::optional<Measure> parameters = measures.offload_parameters();
  using Choice = std::vector<const std::optional<Measure>*>;
  std::vector<Choice> choices;
  if (activations_suffice) choices = {{&recompute}, {&activations}, {&recompute, &activations}};
  choices.insert(choices.end(), {{&states},
                                 {&recompute, &states},
                                 {&activations, &states},
                                 {&recompute, &activations, &states},
                                 {&states, &parameters},
                                 {&recompute, &states, &parameters},
                                 {&recompute, &activations, &states, &parameters}});
  for (const Choice& choice : choices) {
    Candidate candidate;
    for (const std::optional<Measure>* measure : choice) {
      if (*measure) candidate.push_back(**measure);
    }
    if (candidate.size() == choice.size() && !trials.less_fits(candidate)) trials.run(candidate);
  }
}

// Tries other optimizers and narrower types, alone and with recomputation.
void try_other_numbers(Trials& trials, const Measures& measures) {
  std::vector<Measure> others = measures.optimizers();
  const std::vector<Measure> types = measures.precisions();
  others.insert(others.end(), types.begin(), types.end());
  const std::optional<Measure> recompute = measures.recompute();
  for (const Measure& other : others) {
    if (trials.run({other}) || !recompute) continue;
    const Candidate both{*recompute, other};
    // Recomputation alone may fit; then the numbers need not change.
    if (!trials.fits_alone(MeasureKind::kRecompute)) trials.run(both);
  }
}

void try_all(Trials& trials, const Measures& measures, const Original& original,
             const PointResult& point) {
  const Scenario& scenario = original.scenario;
  const Bytes live = point.run.most_live;
  std::vector<Measure> of_allocator;
  if (live + point.context <= point.capacity) of_allocator = measures.memory_fraction();
  if (live <= scenario.allocator->allowed(point.capacity, point.context)) {
    const std::vector<Measure> options = measures.allocator_options();
    of_allocator.insert(of_allocator.end(), options.begin(), options.end());
  }
  if (!of_allocator.empty()) {
    const Compiled compiled = compile(scenario, original.model);
    if (try_in_turn(trials, std::move(of_allocator), &compiled)) return;
  }
  const bool activations_suffice = model_fits(scenario, point);
  if (activations_suffice && try_in_turn(trials, measures.details(), nullptr)) return;
  try_policies(trials, measures, activations_suffice);
  search_least_policies(trials, measures, original.model.training.blocks);
  // A smaller micro-batch may be faster than anything that is done about a larger one.
  const bool found = trials.unchanged_fits();
  try_other_numbers(trials, measures);
  if (activations_suffice) search_micro_batch(trials, measures, {}, original);
  if (found || trials.unchanged_fits()) return;
  const std::optional<Measure> recompute = measures.recompute();
  const std::optional<Measure> states = measures.offload_optimizer();
  std::vector<Candidate> with;
  if (activations_suffice && recompute) with.push_back({*recompute});
  if (recompute && states) with.push_back({*recompute, *states});
  for (const Candidate& others : with) {
    search_micro_batch(trials, measures, others, original);
    if (trials.unchanged_fits()) return;
  }
}

}  // namespace
}  // namespace suggestions_detail

std::vector<Suggestion> suggest_changes(const Value& document, const Scenario& scenario,
                                        const TrainedModel& model, const Environment& environment,
                                        const PointResult& point) {
  if (point.run.status != RunStatus::kOutOfMemory || point.context > point.capacity) return {};
  const Measures measures(document, scenario, model);
  const suggestions_detail::Original original{document, scenario, model, environment};
  suggestions_detail::Trials trials(measures, original);
  suggestions_detail::try_all(trials, measures, original, point);
  return std::move(trials).ranked();
}

const Suggestion* best_that_fits(const std::vector<Suggestion>& tried) {
  const Suggestion* best = nullptr;
  for (const Suggestion& suggestion : tried) {
    if (!suggestion.fits) continue;
    if (!suggestion.changes_numbers) return &suggestion;
    if (best == nullptr) best = &suggestion;
  }
  return best;
}

}  // namespace tidemark
