#include "scenarios/suggestions.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "policies/rewrite/optimizer_kernels.hpp"
#include "scenarios/document_json.hpp"

namespace tidemark {
namespace {

struct Candidate {
  std::string change;
  std::vector<std::string> settings;  // "training.micro_batch=4", as on the command line
};

struct Group {
  std::vector<Candidate> candidates;
  bool shows_all = false;     // also those behind the first that fits
  bool same_program = false;  // the changes leave the compiled program as it is
};

constexpr const char* kRecompute = "checkpoint_every: {period: 1}";
constexpr const char* kOffload = "offload_activations: {}";

class Candidates {
 public:
  Candidates(const Value& document, const Scenario& scenario, const TrainedModel& model)
      : document_(document), scenario_(scenario), model_(model) {}

  [[nodiscard]] Group allocator_options() const;
  [[nodiscard]] Group details() const;
  [[nodiscard]] Group policies() const;
  [[nodiscard]] Group micro_batches() const;

 private:
  [[nodiscard]] bool has_policy(std::string_view name) const {
    const auto& names = scenario_.policy_names;
    return std::find(names.begin(), names.end(), name) != names.end();
  }
  // Policies that order the computation themselves do not take checkpointing beside them.
  [[nodiscard]] bool may_recompute() const {
    return model_.training.blocks > 0 && scenario_.policy_names.empty();
  }
  [[nodiscard]] std::string with_policies(const std::vector<std::string>& added) const;

  const Value& document_;
  const Scenario& scenario_;
  const TrainedModel& model_;
};

Group Candidates::allocator_options() const {
  if (scenario_.allocator != AllocatorKind::kTorch) return {};
  const TorchAllocatorOptions& options = scenario_.allocator_options.torch;
  Group group{.candidates = {}, .same_program = true};
  const auto add = [&](const std::string& change, std::vector<std::string> settings) {
    group.candidates.push_back({change, std::move(settings)});
  };
  if (!options.expandable_segments) {
    add("expandable_segments", {"allocator.expandable_segments=true"});
  }
  for (const int mebibytes : {512, 128, 32}) {
    if (options.max_split_size <= mebibytes * kMiB.count) continue;
    add(fmt::format("max_split_size {} MiB", mebibytes),
        {fmt::format("allocator.max_split_size={}MiB", mebibytes)});
  }
  if (options.roundup_power2_divisions == RoundupDivisions{}) {
    add("roundup_power2_divisions 8", {"allocator.roundup_power2_divisions=8"});
  }
  if (options.garbage_collection_threshold == 0) {
    // PyTorch collects only under a memory fraction.
    std::vector<std::string> settings{"allocator.garbage_collection_threshold=0.8"};
    if (!options.memory_fraction) settings.emplace_back("allocator.memory_fraction=1.0");
    add("garbage_collection_threshold 0.8", std::move(settings));
  }
  return group;
}

Group Candidates::details() const {
  Group group;
  if (scenario_.model.kind == ModelKind::kCostGraph) return group;
  if (scenario_.training.zero_grad == ZeroGrad::kZero) {
    group.candidates.push_back({"zero_grad none", {"training.zero_grad=none"}});
  }
  const TrainingOptions& training = scenario_.training;
  const OptimizerImplementation present = implementation_of(
      training.optimizer, *training.framework, rules_of(training.precision).master_weights);
  for (const auto& [word, implementation] : {std::pair("fused", OptimizerImplementation::kFused),
                                             std::pair("loop", OptimizerImplementation::kLoop)}) {
    if (implementation == present) continue;
    group.candidates.push_back({fmt::format("optimizer {}", word),
                                {fmt::format("training.optimizer.implementation={}", word)}});
  }
  return group;
}

std::string Candidates::with_policies(const std::vector<std::string>& added) const {
  Value list;
  if (const Value* listed = document_.find("policies")) list = *listed;
  list.kind = Value::Kind::kSequence;
  for (const std::string& policy : added)
    list.items.push_back(parse_document(policy, "policies"));
  return "policies=" + as_json(list);
}

Group Candidates::policies() const {
  Group group{.candidates = {}, .shows_all = true};
  if (scenario_.model.kind == ModelKind::kCostGraph) return group;
  const bool may_offload = !has_policy("offload_activations");
  if (may_recompute()) {
    group.candidates.push_back({"checkpoint_every(period 1)", {with_policies({kRecompute})}});
  }
  if (may_offload) group.candidates.push_back({"offload_activations", {with_policies({kOffload})}});
  if (may_recompute() && may_offload) {
    group.candidates.push_back({"checkpoint_every(period 1) + offload_activations",
                                {with_policies({kRecompute, kOffload})}});
  }
  return group;
}

Group Candidates::micro_batches() const {
  Group group;
  if (scenario_.model.kind == ModelKind::kCostGraph) return group;
  const std::int64_t batch = scenario_.training.model.micro_batch;
  std::int64_t smallest = batch;
  const auto settings = [&](std::int64_t smaller) {
    return std::vector<std::string>{
        fmt::format("training.micro_batch={}", smaller),
        fmt::format("training.accumulate={}", scenario_.training.accumulate * batch / smaller)};
  };
  const auto words = [&](std::int64_t smaller) {
    return fmt::format("micro_batch {}, accumulate {}", smaller,
                       scenario_.training.accumulate * batch / smaller);
  };
  for (std::int64_t smaller = batch; smaller % 2 == 0;) {
    smaller /= 2;
    smallest = smaller;
    group.candidates.push_back({words(smaller), settings(smaller)});
  }
  if (may_recompute() && batch > 1) {
    smallest = smallest == batch ? 1 : smallest;
    Candidate both{"checkpoint_every(period 1), " + words(smallest), settings(smallest)};
    both.settings.push_back(with_policies({kRecompute}));
    group.candidates.push_back(std::move(both));
  }
  return group;
}

// What candidates are tried on.
struct Original {
  const Value& document;
  const Scenario& scenario;
  const TrainedModel& model;
  const Environment& environment;
};

PointResult simulate_changed(const Value& document, const Scenario& changed,
                             const Original& original, const Compiled* compiled) {
  const SimulateOptions options{.smallest_capacity = false, .largest_tensors = 0};
  if (compiled != nullptr) return simulate(changed, original.model, *compiled, options);
  const bool same_model =
      training_key(document, changed) == training_key(original.document, original.scenario);
  return same_model ? simulate(changed, original.model, options)
                    : simulate(changed, build_training(changed), options);
}

// The point that a candidate makes; none for a change that is not legal here. `compiled`, if given,
// is the program of both.
std::optional<Suggestion> try_change(const Candidate& candidate, const Original& original,
                                     const Compiled* compiled) {
  try {
    Suggestion result{.change = candidate.change, .overrides = {}};
    Value document = original.document;
    for (const std::string& setting : candidate.settings) {
      const Override change = parse_override(setting);
      apply_override(document, change);
      result.overrides.emplace_back(change.key, as_json(change.value));
    }
    const Scenario changed = decode_scenario(document, original.environment);
    const PointResult point = simulate_changed(document, changed, original, compiled);
    result.fits = point.status == PointStatus::kFits;
    result.device_used = point.context.count + point.run.reserved.bytes;
    result.peak_live = point.run.live.bytes;
    result.peak_reserved = point.run.reserved.bytes;
    result.step = point.run.step;
    return result;
  } catch (const UserError&) {
    return std::nullopt;
  }
}

}  // namespace

std::vector<Suggestion> suggest_changes(const Value& document, const Scenario& scenario,
                                        const TrainedModel& model, const Environment& environment,
                                        const PointResult& point) {
  std::vector<Suggestion> tried;
  if (point.run.status != RunStatus::kOutOfMemory) return tried;
  const Candidates candidates(document, scenario, model);
  std::vector<Group> groups;
  const Original original{document, scenario, model, environment};
  const bool live_fits = point.run.most_live + point.context.count <= point.capacity.count;
  if (live_fits) groups.push_back(candidates.allocator_options());
  groups.push_back(candidates.details());
  groups.push_back(candidates.policies());
  groups.push_back(candidates.micro_batches());
  for (const Group& group : groups) {
    std::optional<Compiled> compiled;
    if (group.same_program && !group.candidates.empty()) compiled = compile(scenario, model);
    bool found = false;
    for (const Candidate& candidate : group.candidates) {
      std::optional<Suggestion> suggestion =
          try_change(candidate, original, compiled ? &*compiled : nullptr);
      if (!suggestion) continue;
      found = found || suggestion->fits;
      tried.push_back(std::move(*suggestion));
      if (found && !group.shows_all) return tried;
    }
    if (found) return tried;
  }
  return tried;
}

}  // namespace tidemark
