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

void check_policies(const Value& turns, const Scenario& step) {
  for (std::size_t i = 0; i < step.policies.size(); ++i) {
    const AnyPolicy& policy = step.policies[i];
    const bool rewrites = std::holds_alternative<std::unique_ptr<ForwardRewrite>>(policy) ||
                          std::holds_alternative<std::unique_ptr<TrainingRewrite>>(policy);
    if (rewrites && step.policy_names[i] != "optimizer_in_backward" &&
        step.policy_names[i] != "pipeline") {
      continue;
    }
    throw UserError(turns.location, "training.turns",
                    fmt::format("the policy '{}' decides about one loss and its backward, and a "
                                "step of several turns has several",
                                step.policy_names[i]));
  }
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
    auto step = std::make_shared<Scenario>(
        decode_scenario(turns_detail::turn_document(document, turns->items[i]), environment));
    turns_detail::check_policies(*turns, *step);
    own.step = std::move(step);
    result.turns.push_back(std::move(own));
  }
}

}  // namespace tidemark
