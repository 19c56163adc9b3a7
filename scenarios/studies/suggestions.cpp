#include "scenarios/studies/suggestions.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "scenarios/studies/measures/measures.hpp"
#include "scenarios/studies/trials.hpp"

namespace tidemark {
namespace suggestions_detail {
namespace {

// Tries the measures one by one up to the first that fits. Returns whether one does. `compiled`, if
// given, is the program that all of them leave as it is.
bool try_in_turn(Trials& trials, std::vector<Measure> measures, const Compiled* compiled) {
  return std::any_of(measures.begin(), measures.end(),
                     [&](Measure& measure) { return trials.run({std::move(measure)}, compiled); });
}

// Bisects for the largest smaller micro-batch that fits together with `others`; keeps it and the
// next larger one. Steps of very many micro-batches are not tried: the answer would take longer
// than the question is worth.
void search_micro_batch(Trials& trials, const Measures& measures, const Candidate& others,
                        const OriginalPoint& original) {
  std::vector<std::int64_t> sizes = measures.smaller_micro_batches();
  const std::int64_t samples =
      original.scenario.training.model.micro_batch * original.scenario.training.accumulate;
  const std::int64_t operators = operators_of(original.model);
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

// Bisects for the least of 1 .. `all` - 1 with which a measure that helps as a whole still fits,
// alone or with others: more of it takes less memory.
void search_least(Trials& trials, const std::function<Candidate(std::int64_t)>& with,
                  std::int64_t all) {
  const std::size_t first = trials.size();
  std::optional<std::size_t> least;
  std::int64_t fails = 0;
  std::int64_t fits = all;
  while (fits - fails > 1) {
    const std::int64_t middle = fails + (fits - fails) / 2;
    const bool helps = trials.run(with(middle));
    (helps ? fits : fails) = middle;
    if (helps) least = trials.size() - 1;
  }
  trials.drop_from(first, least.value_or(trials.size()), false);
}

// Tries less of what fits: recomputing every block or offloading everything may be too much.
void search_least_policies(Trials& trials, const Measures& measures, std::int64_t blocks) {
  constexpr std::int64_t kPercent = 5;  // offloaded parts are multiples of it
  const bool recomputes = trials.fits_alone(MeasureKind::kRecompute);
  if (recomputes) {
    search_least(
        trials, [&](std::int64_t count) { return Candidate{measures.recompute_first(count)}; },
        blocks);
  }
  if (trials.fits_alone(MeasureKind::kOffloadActivations)) {
    search_least(
        trials,
        [&](std::int64_t part) { return Candidate{measures.offload_part(part * kPercent)}; },
        100 / kPercent);
  }
  if (!trials.fits_alone(MeasureKind::kOffloadOptimizer)) return;
  const auto states = [&](std::int64_t part) {
    return measures.offload_optimizer_part(part * kPercent);
  };
  search_least(
      trials, [&](std::int64_t part) { return Candidate{states(part)}; }, 100 / kPercent);
  // Recomputation leaves less to offload, and may take less time than that.
  const std::optional<Measure> recompute = measures.recompute();
  if (recomputes || !recompute || !trials.is_short()) return;
  search_least(
      trials,
      [&](std::int64_t part) {
        return Candidate{*recompute, states(part)};
      },
      100 / kPercent);
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
  const std::optional<Measure> sharding = measures.sharding();
  using Choice = std::vector<const std::optional<Measure>*>;
  std::vector<Choice> choices;
  if (activations_suffice) choices = {{&recompute}, {&activations}, {&recompute, &activations}};
  choices.insert(choices.end(), {{&sharding},
                                 {&recompute, &sharding},
                                 {&states},
                                 {&recompute, &states},
                                 {&activations, &states},
                                 {&recompute, &activations, &states},
                                 {&sharding, &states},
                                 {&recompute, &sharding, &states},
                                 {&states, &parameters},
                                 {&recompute, &states, &parameters},
                                 {&recompute, &activations, &states, &parameters}});
  for (const Choice& choice : choices) {
    if (trials.will_do()) return;
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

// Returns the measures that affect no result: other optimizer kernels leave what forward and
// backward take, unless backward runs them.
std::vector<Measure> details_for(const Measures& measures, const OriginalPoint& original) {
  const PointResult& point = original.result;
  std::vector<Measure> details = measures.details();
  const auto needs_more = [&](Phase phase) {
    return point.run.phase_live[static_cast<std::size_t>(phase)].bytes > point.usable();
  };
  const bool in_backward =
      !original.model.training.updates_in_backward && needs_more(Phase::kBackward);
  if (needs_more(Phase::kForward) || in_backward) {
    std::erase_if(details, [](const Measure& measure) {
      return measure.kind == MeasureKind::kOptimizerKernels;
    });
  }
  return details;
}

void try_all(Trials& trials, const Measures& measures, const OriginalPoint& original) {
  const PointResult& point = original.result;
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
  if (activations_suffice && try_in_turn(trials, details_for(measures, original), nullptr)) return;
  try_policies(trials, measures, activations_suffice);
  if (trials.will_do()) return;
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
  const OriginalPoint original{document, scenario, model, environment, point};
  Trials trials(measures, original);
  suggestions_detail::try_all(trials, measures, original);
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
