#include "scenarios/studies/suggestions.hpp"

#include <algorithm>
#include <functional>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "policies/rewrite/optimizer_kernels.hpp"
#include "scenarios/read/short_form.hpp"

namespace tidemark {
namespace suggestions_detail {
namespace {

struct Candidate {
  std::string change;
  std::vector<Override> settings;
};

// Returns the value that a document would have for one plain word.
Value word(std::string text) {
  return text_value(std::move(text), {});
}

// Returns one policy of a list, with at most one parameter.
Value policy_item(const std::string& name, const std::string& parameter = "",
                  const std::string& value = "") {
  Value parameters = mapping_value({});
  if (!parameter.empty()) set_entry(parameters, parameter, {}, word(value));
  Value item = mapping_value({});
  set_entry(item, name, {}, std::move(parameters));
  return item;
}
Value recompute_all() {
  return policy_item("checkpoint_every", "period", "1");
}
Value offload_all() {
  return policy_item("offload_activations");
}

struct Group {
  std::vector<Candidate> candidates;
  bool shows_all = false;     // also shows those behind the first that fits
  bool same_program = false;  // the changes leave the compiled program unchanged
};

constexpr std::int64_t kLargestSearched = 1 << 20;  // largest micro-batch that is searched

// Returns the bytes that the allocator may reserve.
std::int64_t allowed_bytes(const Scenario& scenario, const PointResult& point) {
  return scenario.allocator->allowed(point.capacity, point.context).count;
}

class Candidates {
 public:
  Candidates(const Value& document, const Scenario& scenario, const TrainedModel& model)
      : document_(document), scenario_(scenario), model_(model) {}

  [[nodiscard]] Group memory_fraction() const;
  [[nodiscard]] Group allocator_options() const;
  [[nodiscard]] Group details() const;
  [[nodiscard]] Group policies() const;
  // Returns the same change for the first `count` blocks only, and for a part of the bytes in
  // percent.
  [[nodiscard]] Candidate recompute_first(std::int64_t count) const;
  [[nodiscard]] Candidate offload_part(std::int64_t percent) const;
  [[nodiscard]] std::vector<std::int64_t> smaller_micro_batches() const;
  [[nodiscard]] Candidate micro_batch(std::int64_t size, bool recomputes) const;
  // Policies that order the computation themselves cannot be combined with checkpointing.
  [[nodiscard]] bool may_recompute() const {
    const bool orders = std::any_of(
        scenario_.policies.begin(), scenario_.policies.end(), [](const AnyPolicy& policy) {
          return std::holds_alternative<std::unique_ptr<SequencePolicy>>(policy);
        });
    return model_.training.blocks > 0 && !orders && !has_policy("checkpoint_every");
  }

 private:
  [[nodiscard]] bool has_policy(std::string_view name) const {
    const auto& names = scenario_.policy_names;
    return std::find(names.begin(), names.end(), name) != names.end();
  }
  [[nodiscard]] Override with_policies(std::vector<Value> added) const;

  const Value& document_;
  const Scenario& scenario_;
  const TrainedModel& model_;
};

Group Candidates::memory_fraction() const {
  Group group{.candidates = {}, .same_program = true};
  if (scenario_.allocator->memory_fraction() < 1) {
    group.candidates.push_back({"memory_fraction 1", {{"allocator.memory_fraction", word("1.0")}}});
  }
  return group;
}

Group Candidates::allocator_options() const {
  Group group{.candidates = {}, .same_program = true};
  for (const AllocatorChange& change : scenario_.allocator->changes()) {
    std::vector<Override> settings;
    for (const AllocatorSetting& setting : change.settings)
      settings.push_back({fmt::format("allocator.{}", setting.key), setting.value});
    group.candidates.push_back({change.text, std::move(settings)});
  }
  return group;
}

Group Candidates::details() const {
  Group group;
  if (scenario_.model.kind == ModelKind::kCostGraph) return group;
  if (scenario_.training.zero_grad == ZeroGrad::kZero) {
    group.candidates.push_back({"zero_grad none", {{"training.zero_grad", word("none")}}});
  }
  const TrainingOptions& training = scenario_.training;
  const OptimizerImplementation present = implementation_of(
      training.optimizer, *training.framework, rules_of(training.precision).master_weights);
  for (const auto& [name, implementation] : {std::pair("fused", OptimizerImplementation::kFused),
                                             std::pair("loop", OptimizerImplementation::kLoop)}) {
    if (implementation == present) continue;
    group.candidates.push_back(
        {fmt::format("optimizer {}", name), {{"training.optimizer.implementation", word(name)}}});
  }
  return group;
}

Override Candidates::with_policies(std::vector<Value> added) const {
  Value list;
  if (const Value* listed = document_.find("policies")) list = *listed;
  list.kind = Value::Kind::kSequence;
  std::move(added.begin(), added.end(), std::back_inserter(list.items));
  return {"policies", std::move(list)};
}

Group Candidates::policies() const {
  Group group{.candidates = {}, .shows_all = true};
  if (scenario_.model.kind == ModelKind::kCostGraph) return group;
  const bool may_offload = !has_policy("offload_activations");
  if (may_recompute()) {
    group.candidates.push_back({"checkpoint_every(period 1)", {with_policies({recompute_all()})}});
  }
  if (may_offload)
    group.candidates.push_back({"offload_activations", {with_policies({offload_all()})}});
  if (may_recompute() && may_offload) {
    group.candidates.push_back({"checkpoint_every(period 1) + offload_activations",
                                {with_policies({recompute_all(), offload_all()})}});
  }
  return group;
}

Candidate Candidates::recompute_first(std::int64_t count) const {
  return {fmt::format("checkpoint(first {})", count),
          {with_policies({policy_item("checkpoint", "first", fmt::to_string(count))})}};
}

Candidate Candidates::offload_part(std::int64_t percent) const {
  const std::string fraction = fmt::format("{:g}", static_cast<double>(percent) / 100);
  return {fmt::format("offload_activations(fraction {})", fraction),
          {with_policies({policy_item("offload_activations", "fraction", fraction)})}};
}

// Returns the divisors of the samples that a step accumulates, below the present micro-batch;
// ascending.
std::vector<std::int64_t> Candidates::smaller_micro_batches() const {
  std::vector<std::int64_t> sizes;
  if (scenario_.model.kind == ModelKind::kCostGraph) return sizes;
  const std::int64_t batch = scenario_.training.model.micro_batch;
  const std::int64_t samples = batch * scenario_.training.accumulate;
  for (std::int64_t size = 1; size < batch && size <= kLargestSearched; ++size) {
    if (samples % size == 0) sizes.push_back(size);
  }
  return sizes;
}

Candidate Candidates::micro_batch(std::int64_t size, bool recomputes) const {
  const std::int64_t accumulate =
      scenario_.training.accumulate * scenario_.training.model.micro_batch / size;
  Candidate candidate{
      fmt::format("{}micro_batch {}, accumulate {}",
                  recomputes ? "checkpoint_every(period 1), " : "", size, accumulate),
      {{"training.micro_batch", word(fmt::to_string(size))},
       {"training.accumulate", word(fmt::to_string(accumulate))}}};
  if (recomputes) candidate.settings.push_back(with_policies({recompute_all()}));
  return candidate;
}

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

// Returns the result of a candidate; none for a change that is not legal here. `compiled`, if
// given, is the program of both.
std::optional<Suggestion> try_change(const Candidate& candidate, const Original& original,
                                     const Compiled* compiled) {
  try {
    Suggestion result{.change = candidate.change, .overrides = candidate.settings};
    Value document = original.document;
    for (const Override& change : candidate.settings)
      apply_override(document, change);
    const Scenario changed = decode_scenario(document, original.environment);
    const PointResult point = simulate_changed(changed, original, compiled);
    result.fits = point.status == PointStatus::kFits;
    result.device_used = point.device_used();
    // Without a limit the allocator would have taken regions that double.
    if (!result.fits && point.smallest_capacity.count > 0)
      result.device_used = point.smallest_capacity;
    result.peak_live = point.run.live.bytes;
    result.peak_reserved = point.run.reserved.bytes;
    result.step = point.run.step;
    return result;
  } catch (const UserError&) {
    return std::nullopt;
  }
}

// Returns the micro-batches that a bisection for the largest that fits has tried, largest first;
// only the smallest if even that one does not fit.
std::vector<Suggestion> search_micro_batches(const Candidates& candidates, const Original& original,
                                             bool recomputes) {
  const std::vector<std::int64_t> sizes = candidates.smaller_micro_batches();
  std::vector<std::pair<std::int64_t, Suggestion>> tried;
  const auto fits = [&](std::size_t i) {
    std::optional<Suggestion> suggestion =
        try_change(candidates.micro_batch(sizes[i], recomputes), original, nullptr);
    if (!suggestion) return false;
    const bool result = suggestion->fits;
    tried.emplace_back(sizes[i], std::move(*suggestion));
    return result;
  };
  std::int64_t best = 0;
  if (!sizes.empty() && fits(0)) {
    std::size_t low = 0;
    std::size_t high = sizes.size();
    while (high - low > 1) {
      const std::size_t middle = low + (high - low) / 2;
      (fits(middle) ? low : high) = middle;
    }
    best = sizes[low];
  }
  std::sort(tried.begin(), tried.end(),
            [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<Suggestion> result;
  for (auto& [size, suggestion] : tried) {
    if (size >= best) result.push_back(std::move(suggestion));
  }
  return result;
}

// Returns the least of 1 .. `all` - 1 with which a change that helps as a whole still fits, by
// bisection: more of it takes less memory. None where nothing less suffices.
std::optional<Suggestion> search_least(const std::function<Candidate(std::int64_t)>& change,
                                       std::int64_t all, const Original& original) {
  std::optional<Suggestion> least;
  std::int64_t fails = 0;
  std::int64_t fits = all;
  while (fits - fails > 1) {
    const std::int64_t middle = fails + (fits - fails) / 2;
    std::optional<Suggestion> suggestion = try_change(change(middle), original, nullptr);
    const bool helps = suggestion && suggestion->fits;
    (helps ? fits : fails) = middle;
    if (helps) least = std::move(suggestion);
  }
  return least;
}

// Tries less of what fits: recomputing every block or offloading everything may be too much.
void add_least_policies(std::vector<Suggestion>& tried, const Candidates& candidates,
                        const Original& original) {
  constexpr std::int64_t kPercent = 5;  // offloaded parts are multiples of it
  const auto fits = [&](std::string_view change) {
    return std::any_of(tried.begin(), tried.end(), [&](const Suggestion& suggestion) {
      return suggestion.fits && suggestion.change == change;
    });
  };
  std::vector<Suggestion> least;
  const auto add = [&](const std::function<Candidate(std::int64_t)>& change, std::int64_t all) {
    if (auto suggestion = search_least(change, all, original))
      least.push_back(std::move(*suggestion));
  };
  if (fits("checkpoint_every(period 1)")) {
    add([&](std::int64_t count) { return candidates.recompute_first(count); },
        static_cast<std::int64_t>(original.model.training.blocks));
  }
  if (fits("offload_activations")) {
    add([&](std::int64_t part) { return candidates.offload_part(part * kPercent); },
        100 / kPercent);
  }
  std::move(least.begin(), least.end(), std::back_inserter(tried));
}

// Whether the memory that stays on the device in every step fits, whatever is done about
// activations.
bool model_fits(const Scenario& scenario, const PointResult& point) {
  // Policies may move or divide that memory.
  if (!scenario.policy_names.empty()) return true;
  return point.model_bytes() + point.context <= point.capacity;
}

// Returns the groups of candidates that may help, those that change least first.
std::vector<Group> groups_to_try(const Candidates& candidates, const Scenario& scenario,
                                 const PointResult& point) {
  std::vector<Group> groups;
  const std::int64_t live = point.run.most_live.count;
  if (live + point.context.count <= point.capacity.count)
    groups.push_back(candidates.memory_fraction());
  if (live <= allowed_bytes(scenario, point)) groups.push_back(candidates.allocator_options());
  groups.push_back(candidates.details());
  groups.push_back(candidates.policies());
  return groups;
}

// Adds the results of a group's candidates, up to the first that fits unless all are shown. Returns
// whether one fits.
bool try_group(const Group& group, const Original& original, std::vector<Suggestion>& tried) {
  std::optional<Compiled> compiled;
  if (group.same_program && !group.candidates.empty())
    compiled = compile(original.scenario, original.model);
  bool found = false;
  for (const Candidate& candidate : group.candidates) {
    std::optional<Suggestion> suggestion =
        try_change(candidate, original, compiled ? &*compiled : nullptr);
    if (!suggestion) continue;
    found = found || suggestion->fits;
    tried.push_back(std::move(*suggestion));
    if (found && !group.shows_all) return true;
  }
  return found;
}

}  // namespace
}  // namespace suggestions_detail

std::vector<Suggestion> suggest_changes(const Value& document, const Scenario& scenario,
                                        const TrainedModel& model, const Environment& environment,
                                        const PointResult& point) {
  std::vector<Suggestion> tried;
  if (point.run.status != RunStatus::kOutOfMemory) return tried;
  if (point.context > point.capacity || !suggestions_detail::model_fits(scenario, point))
    return tried;
  const suggestions_detail::Candidates candidates(document, scenario, model);
  const suggestions_detail::Original original{document, scenario, model, environment};
  for (const suggestions_detail::Group& group :
       suggestions_detail::groups_to_try(candidates, scenario, point)) {
    if (!suggestions_detail::try_group(group, original, tried)) continue;
    if (group.shows_all) suggestions_detail::add_least_policies(tried, candidates, original);
    return tried;
  }
  for (const bool recomputes : {false, true}) {
    if (recomputes && !candidates.may_recompute()) continue;
    for (Suggestion& suggestion :
         suggestions_detail::search_micro_batches(candidates, original, recomputes))
      tried.push_back(std::move(suggestion));
    if (!tried.empty() && tried.back().fits) return tried;
  }
  return tried;
}

const Suggestion* cheapest_that_fits(const std::vector<Suggestion>& tried) {
  const Suggestion* cheapest = nullptr;
  for (const Suggestion& suggestion : tried) {
    if (!suggestion.fits) continue;
    if (cheapest == nullptr || suggestion.step < cheapest->step) cheapest = &suggestion;
  }
  return cheapest;
}

}  // namespace tidemark
