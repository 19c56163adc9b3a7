#include "cli/advice.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "graph/core/errors.hpp"
#include "plots/role_style.hpp"
#include "plots/table.hpp"
#include "scenarios/environment.hpp"
#include "scenarios/short_form.hpp"

namespace tidemark {
namespace {

constexpr std::size_t kShownGpus = 4;

bool has_policy(const Scenario& scenario, std::string_view name) {
  const auto& names = scenario.policy_names;
  return std::find(names.begin(), names.end(), name) != names.end();
}

// The document with policies added at the end of its list.
Value with_policies(const Value& document, const std::vector<std::string>& policies) {
  Value changed = document;
  Value list;
  if (const Value* listed = document.find("policies")) list = *listed;
  list.kind = Value::Kind::kSequence;
  for (const std::string& policy : policies) {
    list.items.push_back(parse_document(policy, "advice"));
  }
  set_entry(changed, "policies", {}, std::move(list));
  return changed;
}

struct Candidate {
  std::string change;
  Value document;
};

std::vector<Candidate> candidates(const Value& document, const Scenario& scenario,
                                  const TrainedModel& model) {
  constexpr const char* kRecompute = "checkpoint_every: {period: 1}";
  constexpr const char* kOffload = "offload_activations: {}";
  std::vector<Candidate> list;
  const bool may_recompute = model.training.blocks > 0 && scenario.policy_names.empty();
  const bool may_offload = !has_policy(scenario, "offload_activations");
  const std::int64_t batch = scenario.training.model.micro_batch;
  const auto with_batch = [&](Value changed, std::int64_t smaller) {
    apply_override(changed, parse_override(fmt::format("training.micro_batch={}", smaller)));
    apply_override(changed,
                   parse_override(fmt::format("training.accumulate={}",
                                              scenario.training.accumulate * batch / smaller)));
    return changed;
  };
  const auto batch_text = [&](std::int64_t smaller) {
    return fmt::format("micro_batch {}, accumulate {}", smaller,
                       scenario.training.accumulate * batch / smaller);
  };
  if (batch % 2 == 0) list.push_back({batch_text(batch / 2), with_batch(document, batch / 2)});
  if (may_recompute) {
    list.push_back({"checkpoint_every(period 1)", with_policies(document, {kRecompute})});
  }
  if (may_offload) list.push_back({"offload_activations", with_policies(document, {kOffload})});
  if (may_recompute && may_offload) {
    list.push_back({"checkpoint_every(period 1) + offload_activations",
                    with_policies(document, {kRecompute, kOffload})});
  }
  if (may_recompute && batch > 1) {
    list.push_back({"checkpoint_every(period 1), " + batch_text(1),
                    with_batch(with_policies(document, {kRecompute}), 1)});
  }
  return list;
}

}  // namespace

std::vector<Remedy> try_remedies(const Value& document, const Scenario& scenario,
                                 const TrainedModel& model, const Environment& environment) {
  std::vector<Remedy> remedies;
  if (scenario.model.kind == ModelKind::kCostGraph) return remedies;
  for (const Candidate& candidate : candidates(document, scenario, model)) {
    try {
      const Scenario changed = decode_scenario(candidate.document, environment);
      const PointResult point =
          simulate(changed, build_training(changed), {.smallest_capacity = false});
      remedies.push_back({.change = candidate.change,
                          .fits = point.status == PointStatus::kFits,
                          .device_used = device_used(point),
                          .step = point.run.step});
    } catch (const UserError&) {
      // The change is not legal here, so it is no advice.
    }
  }
  return remedies;
}

std::vector<std::string> gpus_with(std::int64_t bytes, const Environment& environment) {
  std::vector<std::pair<std::int64_t, std::string>> found;
  for (const std::string& name : gpu_names(environment)) {
    const DeviceProfile profile = load_device_profile(name, environment.profile_folders);
    if (profile.hbm.capacity.count >= bytes) found.emplace_back(profile.hbm.capacity.count, name);
  }
  std::sort(found.begin(), found.end());
  std::vector<std::string> names;
  for (auto& [capacity, name] : found)
    names.push_back(std::move(name));
  return names;
}

std::string explain_failure(const PointResult& point, const Value& document,
                            const Scenario& scenario, const TrainedModel& model,
                            const Environment& environment, bool colour, std::size_t width) {
  std::string text;
  const auto paragraph = [&](const std::string& sentence) {
    for (const std::string& line : wrap(sentence, width - 2))
      text += "  " + line + '\n';
  };
  if (!point.failure.empty()) paragraph(point.failure.front().message + ".");
  const std::int64_t needed =
      point.smallest_capacity > 0 ? point.smallest_capacity : device_used(point);
  const std::int64_t persistent = point.parameters.count + point.gradients.count +
                                  point.optimizer_state.count + point.buffers.count;
  if (point.run.status == RunStatus::kOutOfHostMemory) {
    paragraph(fmt::format("The host has {}; with enough of it {} would be used.",
                          format_bytes(point.host_capacity),
                          format_bytes(Bytes(point.run.host.bytes))));
    return text;
  }
  paragraph(fmt::format("It needs a device of {}; this one has {}, so {} are missing.",
                        format_bytes(Bytes(needed)), format_bytes(point.capacity),
                        format_bytes(Bytes(needed - point.capacity.count))));
  if (persistent + point.context.count > point.capacity.count) {
    paragraph(fmt::format(
        "Parameters, gradients and optimizer state alone take {}: no change to activations helps.",
        format_bytes(Bytes(persistent))));
  }
  text += '\n';
  text += "  " + bold("What would help", colour) + dim(" (simulated)", colour) + '\n';
  Table table({{""}, {"", Align::kRight}, {"", Align::kRight}, {""}}, 4);
  const std::vector<Remedy> remedies = try_remedies(document, scenario, model, environment);
  for (const Remedy& remedy : remedies) {
    table.add_row({{remedy.change},
                   {format_bytes(Bytes(remedy.device_used))},
                   {remedy.fits ? format_duration(remedy.step) + " per step" : ""},
                   {remedy.fits ? "fits" : "does not fit", remedy.fits ? kGood : kBad}});
  }
  const std::vector<std::string> gpus = gpus_with(needed, environment);
  if (point.run.status == RunStatus::kOutOfHostMemory) {
    table.add_row({{"more host memory"}, {""}, {""}, {"no GPU makes up for it", kBad}});
  } else if (gpus.empty()) {
    table.add_row(
        {{"a larger GPU"}, {format_bytes(Bytes(needed))}, {""}, {"none is that large", kBad}});
  } else {
    const std::size_t shown = std::min(gpus.size(), kShownGpus);
    table.add_row(
        {{"a larger GPU: " +
          fmt::format("{}", fmt::join(gpus.begin(),
                                      gpus.begin() + static_cast<std::ptrdiff_t>(shown), ", "))},
         {format_bytes(Bytes(needed))},
         {""},
         {"fits", kGood}});
  }
  return text + table.text(colour);
}

}  // namespace tidemark
