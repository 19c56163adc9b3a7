// Decodes `policies`: names, or mappings of one name to its parameters.
#include <algorithm>
#include <array>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "graph/core/scalars.hpp"
#include "scenarios/read/decode_parts.hpp"

namespace tidemark {
namespace decode_policies_detail {
namespace {

// Names in the format whose policies are not written yet; the registry takes precedence.
constexpr std::string_view kPlanned[] = {
    "adaptive_precision",
    "chunked_loss",
    "compress_activations",
    "context_parallel",
    "distill",
    "expert_parallel",
    "fsdp",
    "lora",
    "memory_elastic",
    "optimizer_in_backward",
    "pipeline",
    "prune",
    "tensor_parallel",
    "zero",
};

// One item of the list, with its parameters.
struct Listed {
  std::string name;
  Location location;  // location of the name
  Value parameters;   // null for a bare name
};

Listed decode_item(const Decoder& item) {
  const Value& value = item.value();
  if (value.is_scalar() && !value.scalar.empty()) {
    Value none;
    none.location = value.location;
    return {.name = value.scalar, .location = value.location, .parameters = std::move(none)};
  }
  if (!value.is_mapping()) {
    item.fail(
        fmt::format("expected the name of a policy or {{name: {{...}}}}, found {}", found(value)));
  }
  if (value.entries.size() != 1) {
    item.fail(
        fmt::format("expected one policy, found a mapping of {} keys; begin each policy with "
                    "'- ' and indent its parameters",
                    value.entries.size()));
  }
  const Value::Entry& entry = value.entries.front();
  return {.name = entry.key, .location = entry.location, .parameters = entry.value};
}

const PolicyEntry& find_policy(const Listed& listed, const std::string& path,
                               const PolicyRegistry& registry) {
  if (const PolicyEntry* entry = registry.find(listed.name)) return *entry;
  if (std::find(std::begin(kPlanned), std::end(kPlanned), listed.name) != std::end(kPlanned)) {
    throw UserError(listed.location, path,
                    fmt::format("policy '{}' is planned but not available: it {}; available: {}",
                                listed.name, kLater, fmt::join(registry.names(), ", ")));
  }
  std::vector<std::string> names = registry.names();
  names.insert(names.end(), std::begin(kPlanned), std::end(kPlanned));
  std::string hint = did_you_mean(listed.name, names);
  if (hint.empty()) hint = fmt::format("; available: {}", fmt::join(registry.names(), ", "));
  throw UserError(listed.location, path,
                  fmt::format("there is no policy {}{}", tidemark::quoted(listed.name), hint));
}

// Returns what only one policy of a list can do, as this one does; empty where it does no such
// thing.
std::string_view single_task(const AnyPolicy& policy) {
  if (std::holds_alternative<std::unique_ptr<SequencePolicy>>(policy))
    return "decides the order of the operators";
  if (std::holds_alternative<std::unique_ptr<EvictionPolicy>>(policy))
    return "chooses what to evict";
  const auto* rewrite = std::get_if<std::unique_ptr<TrainingRewrite>>(&policy);
  const bool reduces = rewrite != nullptr && (*rewrite)->reduces_gradients();
  return reduces ? "reduces the gradients" : "";
}

// Throws for a second policy that does what only one can.
void check_single(const Listed& listed, const AnyPolicy& policy, const Scenario& scenario) {
  const std::string_view task = single_task(policy);
  if (task.empty()) return;
  for (std::size_t i = 0; i < scenario.policies.size(); ++i) {
    if (single_task(scenario.policies[i]) != task) continue;
    throw UserError(
        listed.location, "policies." + excerpt(listed.name),
        fmt::format("'{}' {} already, and only one policy can", scenario.policy_names[i], task));
  }
}

}  // namespace
}  // namespace decode_policies_detail

void decode_policies(const Decoder& scenario, const Environment& environment, Scenario& result) {
  result.plans = environment.plans.get();
  const Value* list = scenario.value().find("policies");
  if (list != nullptr && !list->is_null() && !list->is_sequence()) {
    scenario.fail_at("policies", fmt::format("expected a list of policies, found {}; begin each "
                                             "policy with '- '",
                                             found(*list)));
  }
  const RewriteContext context = rewrite_context(result);
  for (const Decoder& item : scenario.optional_child("policies").items()) {
    const decode_policies_detail::Listed listed = decode_policies_detail::decode_item(item);
    const PolicyEntry& entry =
        decode_policies_detail::find_policy(listed, item.path(), environment.policies);
    AnyPolicy policy = entry.decode(Decoder(listed.parameters, "policies." + listed.name), context);
    decode_policies_detail::check_single(listed, policy, result);
    result.policies.push_back(std::move(policy));
    result.policy_names.push_back(listed.name);
  }
}

}  // namespace tidemark
