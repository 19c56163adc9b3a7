// Decodes `policies`: names, or mappings of one name to its parameters.
#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>

#include "graph/core/scalars.hpp"
#include "graph/rewrite/partition/partition_errors.hpp"
#include "scenarios/read/decode_parts.hpp"
#include "scenarios/read/elastic_options.hpp"
#include "scenarios/results/document_json.hpp"

namespace tidemark {
namespace decode_policies_detail {
namespace {

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
  const std::vector<std::string> names = registry.names();
  std::string hint = did_you_mean(listed.name, names);
  if (hint.empty()) hint = fmt::format("; available: {}", fmt::join(registry.names(), ", "));
  throw UserError(
      listed.location, path,
      fmt::format("there is no policy {}{}", tidemark::quoted_excerpt(listed.name), hint));
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

// Throws where a policy that only makes sense once is listed again.
void check_listed_once(const Listed& listed, const PolicyEntry& entry, const Scenario& scenario) {
  const std::vector<std::string>& names = scenario.policy_names;
  const bool divides = entry.mesh != nullptr;
  const bool again = std::find(names.begin(), names.end(), listed.name) != names.end();
  if (!again || (!divides && !entry.once)) return;
  throw UserError(listed.location, "policies." + excerpt(listed.name),
                  fmt::format("'{}' {}", listed.name,
                              divides ? "divides the ranks already; give it one size"
                                      : "is listed already; list it once"));
}

// Throws where weights are averaged by a policy and by training.ema.
void check_averages_once(const Listed& listed, const Scenario& scenario) {
  if (listed.name != "ema" || !scenario.training.ema) return;
  throw UserError(listed.location, "policies.ema",
                  "training.ema keeps an average of the weights already; write training.ema or the "
                  "policy 'ema', not both");
}

// Throws for a policy that decides what a pipeline's schedule decides already, or that a rank could
// follow only alone.
void check_pipeline(const Listed& listed, const AnyPolicy& policy, const Scenario& scenario) {
  if (scenario.mesh.size(MeshDimension::kPipeline) == 1) return;
  const bool orders = std::holds_alternative<std::unique_ptr<SequencePolicy>>(policy);
  const bool evicts = std::holds_alternative<std::unique_ptr<EvictionPolicy>>(policy);
  if (!orders && !evicts) return;
  throw UserError(
      listed.location, "policies." + excerpt(listed.name),
      orders ? fmt::format("'{}' and 'pipeline' both decide the order of the operators; "
                           "checkpoint_every and selective recompute within a stage",
                           listed.name)
             : fmt::format("'{}' decides while one GPU runs alone, and 'pipeline' runs one for "
                           "each stage; checkpoint_every and offload_activations go with it",
                           listed.name));
}

// Throws at a budget of bytes whose unit was forgotten; a cost graph has a unit of its own.
void check_budget(const Listed& listed, const Scenario& scenario) {
  const Value* budget = listed.parameters.find("budget");
  if (budget == nullptr || !budget->is_scalar() || budget->scalar.empty() ||
      budget->scalar.find_first_not_of("0123456789") != std::string::npos ||
      scenario.model.kind == ModelKind::kCostGraph)
    return;
  const std::string problem = forgotten_unit(Decoder(*budget).as<Bytes>());
  if (problem.empty()) return;
  throw UserError(budget->location, fmt::format("policies.{}.budget", excerpt(listed.name)),
                  problem);
}

// Throws unless the GPUs can be divided as the policies ask. What the model lets them be divided
// into is not known yet (scenarios/studies/accepted_sizes.hpp).
void check_count(const Decoder& hardware, int count, const MeshRequest& request) {
  if (count % request.divided() == 0) return;
  std::vector<std::string> sizes;
  for (const MeshDimension dimension : kDividingDimensions)
    sizes.push_back(fmt::format("{} {}", name_of(dimension), request.size(dimension)));
  hardware.fail_at(
      "count",
      fmt::format("{} GPU{} cannot be divided into {} = {} ranks, as the policies ask", count,
                  count == 1 ? "" : "s", fmt::join(sizes, " x "), request.divided()));
}

void check_within(const Decoder& hardware, std::string_view what, int size, std::string_view of,
                  int whole) {
  if (size >= 1 && whole % size == 0) return;
  hardware.fail_at("count", fmt::format("{} groups of {} do not divide the {} {} that {} GPUs "
                                        "leave; write {}",
                                        what, size, whole, of, hardware.optional<int>("count", 1),
                                        nearest_divisors(whole, size)));
}

}  // namespace
}  // namespace decode_policies_detail

std::string forgotten_unit(Bytes budget) {
  constexpr Bytes kLeastBudget(1024);
  if (budget >= kLeastBudget) return {};
  return fmt::format("{0} bytes hold no step; is {0}GiB meant?", budget.count);
}

MeshRequest mesh_request(const Decoder& scenario, const Environment& environment) {
  MeshRequest request;
  const Value* list = scenario.value().find("policies");
  if (list == nullptr || !list->is_sequence()) return request;
  for (const Decoder& item : scenario.optional_child("policies").items()) {
    const decode_policies_detail::Listed listed = decode_policies_detail::decode_item(item);
    const PolicyEntry* entry = environment.policies.find(listed.name);
    if (entry == nullptr || entry->mesh == nullptr) continue;
    entry->mesh(Decoder(listed.parameters, "policies." + listed.name), request);
  }
  return request;
}

void decode_mesh(const Decoder& scenario, const Environment& environment, Scenario& result) {
  const MeshRequest request = mesh_request(scenario, environment);
  const Value* given = scenario.value().find("hardware");
  // A bare name has no count; mistakes are reported where the name stands.
  Value alone;
  if (given != nullptr) alone.location = given->location;
  const bool is_mapping = given != nullptr && given->is_mapping();
  const Decoder hardware(is_mapping ? *given : alone, "hardware");
  const int count = hardware.optional<int>("count", 1, between(1, kMaxCount));
  decode_policies_detail::check_count(hardware, count, request);
  const auto data = static_cast<int>(count / request.divided());
  const int expert = request.size(MeshDimension::kExpert);
  Mesh::Sizes sizes{};
  for (std::size_t i = 0; i < sizes.size(); ++i)
    sizes[i] = request.size(static_cast<MeshDimension>(i));
  const int replicas = data * request.size(MeshDimension::kContext);
  const int shard = request.shards ? request.shard.value_or(replicas) : 1;
  decode_policies_detail::check_within(hardware, "shard", shard, "replicas", replicas);
  decode_policies_detail::check_within(hardware, "expert", expert, "data ranks", data);
  sizes[static_cast<std::size_t>(MeshDimension::kData)] = data;
  sizes[static_cast<std::size_t>(MeshDimension::kShard)] = shard;
  result.mesh = mesh_of(sizes, result.device);
  result.mesh_request = request;
}

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
    if (listed.name == kMemoryElastic) {
      static_cast<void>(decode_elastic(Decoder(listed.parameters, "policies." + listed.name)));
      result.elastic = listed.location;
      continue;
    }
    const PolicyEntry& entry =
        decode_policies_detail::find_policy(listed, item.path(), environment.policies);
    AnyPolicy policy = entry.decode(Decoder(listed.parameters, "policies." + listed.name), context);
    decode_policies_detail::check_single(listed, policy, result);
    decode_policies_detail::check_pipeline(listed, policy, result);
    decode_policies_detail::check_listed_once(listed, entry, result);
    decode_policies_detail::check_averages_once(listed, result);
    decode_policies_detail::check_budget(listed, result);
    result.policies.push_back(std::move(policy));
    result.policy_names.push_back(listed.name);
  }
  if (list != nullptr) result.policies_key = as_json(*list);
}

}  // namespace tidemark
