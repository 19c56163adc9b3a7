#include "scenarios/read/turns.hpp"

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "graph/core/decoder.hpp"
#include "graph/core/errors.hpp"
#include "scenarios/read/decode_parts.hpp"
#include "scenarios/read/elastic_options.hpp"
#include "scenarios/read/short_form.hpp"

namespace tidemark {
namespace turns_detail {
namespace {

// Keys of `training` that each turn may have for itself.
constexpr std::array<std::string_view, 9> kTurnKeys{"micro_batch", "sequence",       "image",
                                                    "loss",        "target_length",  "dropout",
                                                    "optimizer",   "clip_grad_norm", "ema"};

Value& child(Value& mapping, const std::string& key, const Location& location) {
  if (mapping.find(key) == nullptr) set_entry(mapping, key, location, mapping_value(location));
  return *mapping.find(key);
}

// Returns the scenario of one turn: that of the step, with what the turn lays over it.
Value turn_document(const Value& document, const Value& turn) {
  Value own = document;
  Value& training = child(own, "training", turn.location);
  std::erase_if(training.entries, [](const Value::Entry& entry) { return entry.key == "turns"; });
  for (const Value::Entry& entry : turn.entries) {
    if (entry.key == "model") {
      const Value* base = document.find("model");
      set_entry(own, "model", entry.location,
                base == nullptr ? entry.value : extended_model(*base, entry.value));
    } else if (entry.key == "policies") {
      Value policies = entry.value;
      if (const Value* base = document.find("policies"))
        policies.items.insert(policies.items.begin(), base->items.begin(), base->items.end());
      set_entry(own, "policies", entry.location, std::move(policies));
    } else if (entry.key != "train") {
      set_entry(*own.find("training"), entry.key, entry.location, entry.value);
    }
  }
  for (const char* key : {"sweep", "compare", "goal", "report"})
    std::erase_if(own.entries, [&](const Value::Entry& entry) { return entry.key == key; });
  return own;
}

// Throws for what is decided for a step as a whole, or about one backward.
void check_step(const Value& turns, const Scenario& step) {
  const auto refuse = [&](std::string_view what) {
    throw UserError(turns.location, "training.turns",
                    fmt::format("a step of several turns is not simulated with {}", what));
  };
  if (step.training.mode != StepMode::kTrain) refuse("training.mode: forward or generate");
  if (step.mesh.ranks() > 1) refuse("several GPUs; leave hardware.count out");
  if (step.training.compile) refuse("training.compile");
  if (step.training.loader) refuse("training.loader");
  if (step.training.loss_scale) refuse("training.loss_scale");
  if (step.model.kind == ModelKind::kCostGraph) refuse("a cost graph");
}

// Rewrites of a step that no step of several turns has: of backward, and of what several GPUs do.
constexpr std::array<std::string_view, 6> kNoRewrites{
    "optimizer_in_backward", "pipeline", "fsdp", "zero", "distributed_optimizer",
    "megatron_data_parallel"};
// Those that a turn may have for itself, since they move nothing. What moves is planned for the
// whole step.
constexpr std::array<std::string_view, 2> kTurnRewrites{"compress_activations", "ema"};

template <std::size_t kSize>
bool has(const std::array<std::string_view, kSize>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Throws for policies that decide for a step as a whole, or about one backward. `own` counts those
// at the end of the list that one turn adds.
void check_policies(const Value& turns, const Scenario& step, std::size_t own) {
  for (std::size_t i = 0; i < step.policies.size(); ++i) {
    const AnyPolicy& policy = step.policies[i];
    const bool is_own = i + own >= step.policies.size();
    if (rewrites_model(policy) && !has(kNoRewrites, step.policy_names[i])) {
      const bool forward = std::holds_alternative<std::unique_ptr<ForwardRewrite>>(policy);
      if (!is_own || forward || has(kTurnRewrites, step.policy_names[i])) continue;
      throw UserError(turns.location, "training.turns",
                      fmt::format("the policy '{}' is about the whole step: list it in policies of "
                                  "the scenario, not of a turn",
                                  step.policy_names[i]));
    }
    throw UserError(turns.location, "training.turns",
                    fmt::format("the policy '{}' decides about one loss and its backward, and a "
                                "step of several turns has several",
                                step.policy_names[i]));
  }
}

// Throws for a study among a turn's policies, which decides nothing in a single step.
void check_studies(const Value& turn) {
  if (elastic_policy(turn) == nullptr) return;
  throw UserError(turn.location, "training.turns",
                  "memory_elastic is a study of a whole scenario, not a policy of a turn");
}

}  // namespace
}  // namespace turns_detail

void decode_turns(const Value& document, const Environment& environment, Scenario& result) {
  const Value* training = document.find("training");
  const Value* turns = training == nullptr ? nullptr : training->find("turns");
  if (turns == nullptr || turns->is_null()) return;
  if (turns->kind != Value::Kind::kSequence || turns->items.size() < 2) {
    throw UserError(turns->location, "training.turns",
                    "expected a list of two or more turns, such as [{train: [disc]}, {train: "
                    "[gen]}]; a step with one loss needs none");
  }
  turns_detail::check_step(*turns, result);
  for (std::size_t i = 0; i < turns->items.size(); ++i) {
    const Decoder turn(turns->items[i], fmt::format("training.turns[{}]", i));
    Turn own;
    own.train.layers = turn.list<std::string>("train");
    for (const std::string_view key : turns_detail::kTurnKeys)
      static_cast<void>(turn.has(key));
    for (const std::string_view key : {"model", "policies"})
      static_cast<void>(turn.has(key));
    turn.finish();
    turns_detail::check_studies(turns->items[i]);
    auto step = std::make_shared<Scenario>(
        decode_scenario(turns_detail::turn_document(document, turns->items[i]), environment));
    turns_detail::check_policies(*turns, *step, step->policies.size() - result.policies.size());
    own.step = std::move(step);
    result.turns.push_back(std::move(own));
  }
}

}  // namespace tidemark
