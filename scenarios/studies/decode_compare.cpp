// Reads and checks `compare`.
#include <algorithm>
#include <set>
#include <stdexcept>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "graph/core/numbers.hpp"
#include "graph/core/scalars.hpp"
#include "policies/plan_policies.hpp"
#include "policies/solver/plan_request.hpp"
#include "scenarios/read/decode_parts.hpp"
#include "scenarios/read/elastic_options.hpp"
#include "scenarios/read/environment.hpp"
#include "scenarios/read/short_form.hpp"
#include "scenarios/studies/compare_parts.hpp"

namespace tidemark {
namespace decode_compare_detail {
namespace {

constexpr std::string_view kExample =
    "compare: {policies: [[], [checkpoint_every: {period: 1}], [optimal: {}]], budgets: [40GiB]}";
constexpr std::size_t kMaxCompared = 10'000;

// Decodes a budget: 0.5 and 50% are shares, 40GiB and 512 are bytes.
CompareSpec::Budget decode_budget(const Decoder& item) {
  const Value& value = item.value();
  const std::string& text = value.scalar;
  const bool percent = value.is_scalar() && text.ends_with('%');
  const bool fraction = value.is_scalar() && !value.quoted && text.find('.') != text.npos &&
                        text.find_first_not_of("0123456789._") == text.npos;
  if (!percent && !fraction) return {.bytes = Bytes(item.as<Bytes>(above(0)).count), .share = {}};
  try {
    Value number = value;
    if (percent) number.scalar.erase(number.scalar.find_last_not_of(" %") + 1);
    number.quoted = false;
    const double share = read_real(number, "a share") / (percent ? 100 : 1);
    if (share > 0 && share <= 1) return {.bytes = Bytes(0), .share = share};
  } catch (const std::invalid_argument&) {  // reported below
  }
  item.fail(
      fmt::format("expected a size such as 40GiB, or a share of the peak without policies such as "
                  "0.5 or 50%, found {}",
                  found(value)));
}

// Rethrows an error of a list that stood in for `policies`, at its place under `compare`.
[[noreturn]] void rethrow_for_list(const UserError& error, std::size_t list) {
  constexpr std::string_view kListKey = "policies";
  std::string path = error.path();
  if (path.starts_with(kListKey)) {
    path = fmt::format("compare.policies[{}]{}", list, path.substr(kListKey.size()));
  }
  throw UserError(error.location(), path, error.problem());
}

const PlanPolicy& find_for_cost_graphs(const Decoder& list, const ListedPolicy& listed) {
  if (const PlanPolicy* policy = find_plan_policy(listed.name)) return *policy;
  std::vector<std::string> names;
  for (const PlanPolicy& policy : plan_policies())
    names.emplace_back(policy.name);
  throw UserError(listed.location, list.path(),
                  fmt::format("there is no policy {} for cost graphs{}; policies: {}",
                              tidemark::quoted_excerpt(listed.name),
                              did_you_mean(listed.name, names), fmt::join(names, ", ")));
}

// Returns a list that begins with the policies that all have in common, but for those that it sets
// itself.
Value with_common(const Value& common, const Value& list) {
  const std::vector<ListedPolicy> listed = listed_policies(list);
  const std::vector<ListedPolicy> names = listed_policies(common);
  Value all = list;
  all.items.clear();
  for (std::size_t i = 0; i < names.size(); ++i) {
    const bool set = std::any_of(listed.begin(), listed.end(), [&](const ListedPolicy& policy) {
      return policy.name == names[i].name;
    });
    if (!set) all.items.push_back(common.items[i]);
  }
  all.items.insert(all.items.end(), list.items.begin(), list.items.end());
  return all;
}

struct ListFacts {
  bool solves = false;  // the list is planned for each budget
  int deciding = 0;     // policies that decide about memory
  int micro_batches = 1;
};

ListFacts check_list(const Value& document, const Value& list, std::size_t index, bool cost_graph,
                     const Environment& environment) {
  const Decoder decoder(list, fmt::format("compare.policies[{}]", index));
  const std::vector<ListedPolicy> policies = listed_policies(list);
  if (cost_graph) {
    if (policies.size() > 1) decoder.fail("a schedule of a cost graph is one policy's");
    if (!policies.empty()) {
      static_cast<void>(cost_graph_planner(policies.front(), decoder.path()));
      return {policies.front().parameters.find("budget") == nullptr, 1};
    }
    return {};
  }
  Value changed = document;
  set_entry(changed, "policies", list.location, list);
  try {
    Scenario scenario = decode_scenario(changed, environment);
    const auto rewrites = std::count_if(scenario.policies.begin(), scenario.policies.end(),
                                        [](const AnyPolicy& p) { return rewrites_model(p); });
    return {set_budgets(scenario, policies, Bytes(1), Bytes(0)),
            static_cast<int>(scenario.policies.size()) - static_cast<int>(rewrites),
            static_cast<int>(scenario.training.accumulate)};
  } catch (const UserError& error) {
    rethrow_for_list(error, index);
  }
}

// A list as it is compared, and what it does.
struct CheckedList {
  Value policies;
  ListFacts facts;
};

// Gives a list the policies that all have in common. One that cannot stand beside the list, as zero
// beside fsdp, gives way to it. Throws where that is not what is wrong.
CheckedList check_with_common(const Value& document, const Value& list, std::size_t index,
                              bool cost_graph, const Environment& environment) {
  const Value common = *document.find("policies");
  const auto checked = [&](const Value& begin) -> CheckedList {
    Value policies = with_common(begin, list);
    const ListFacts facts = check_list(document, policies, index, cost_graph, environment);
    return {std::move(policies), facts};
  };
  try {
    return checked(common);
  } catch (const UserError&) {
    for (std::size_t i = 0; i < common.items.size(); ++i) {
      Value others = common;
      others.items.erase(others.items.begin() + static_cast<std::ptrdiff_t>(i));
      try {
        return checked(others);
      } catch (const UserError&) {  // the first error is the one to report
        continue;
      }
    }
    throw;
  }
}

}  // namespace
}  // namespace decode_compare_detail

std::vector<ListedPolicy> listed_policies(const Value& list) {
  std::vector<ListedPolicy> policies;
  for (const Value& item : list.items) {
    if (item.is_mapping() && !item.entries.empty()) {
      const Value::Entry& entry = item.entries.front();
      policies.push_back({entry.key, entry.location, entry.value});
    } else {
      policies.push_back({item.scalar, item.location, {}});
    }
  }
  return policies;
}

bool set_budgets(Scenario& scenario, const std::vector<ListedPolicy>& listed, Bytes budget,
                 Bytes reserve) {
  bool taken = false;
  for (std::size_t i = 0; i < listed.size(); ++i) {
    if (listed[i].parameters.find("budget") != nullptr) continue;
    const bool plans = find_plan_policy(listed[i].name) != nullptr;
    const Bytes given = plans ? budget - reserve : budget;
    AnyPolicy& policy = scenario.policies[i];
    if (!policy_of(policy).set_budget(given)) continue;
    taken = true;
    if (rewrites_model(policy)) {
      scenario.training_key += fmt::format("{} within {} bytes\n", listed[i].name, given.count);
    }
  }
  return taken;
}

CostGraphPlanner cost_graph_planner(const ListedPolicy& listed, const std::string& path) {
  const Decoder place(listed.parameters, path);
  const PlanPolicy& policy = decode_compare_detail::find_for_cost_graphs(place, listed);
  const Decoder parameters(listed.parameters, fmt::format("{}.{}", path, listed.name));
  CostGraphPlanner planner{.plan = policy.decode(parameters), .request = {}};
  planner.request = decode_request(parameters, policy, {});
  parameters.finish();
  return planner;
}

OwnPolicies own_policies(const Value& document, const Environment& environment) {
  OwnPolicies own;
  own.common.location = own.deciding.location = document.location;
  own.common.kind = own.deciding.kind = Value::Kind::kSequence;
  Value alone = without_elastic(document);
  std::erase_if(alone.entries, [](const Value::Entry& entry) {
    return entry.key == "compare" || entry.key == "sweep";
  });
  const Value* list = alone.find("policies");
  if (list == nullptr || list->is_null()) return own;
  if (alone.find("hardware") == nullptr) return own;  // a cost graph
  const Scenario scenario = decode_scenario(alone, environment);
  if (scenario.model.kind == ModelKind::kCostGraph) return own;
  for (std::size_t i = 0; i < scenario.policies.size(); ++i) {
    const bool rewrites = rewrites_model(scenario.policies[i]);
    (rewrites ? own.common : own.deciding).items.push_back(list->items[i]);
  }
  return own;
}

Value comparable(const Value& document, const Environment& environment) {
  const Value common = own_policies(document, environment).common;
  Value bare = document;
  std::erase_if(bare.entries, [](const Value::Entry& entry) { return entry.key == "compare"; });
  const bool has_hardware = document.find("hardware") != nullptr;
  const Decoder decoder(bare);
  if (!has_hardware && decode_model(decoder).kind == ModelKind::kCostGraph) {
    // A cost graph has costs of its own; any device will do.
    const std::vector<std::string> names = gpu_names(environment);
    if (!names.empty()) {
      set_entry(bare, "hardware", document.location, text_value(names.front(), document.location));
    }
  }
  set_entry(bare, "policies", document.location, common);
  return bare;
}

CompareSpec decode_compare(const Value& document, const Environment& environment) {
  const Value* given = document.find("compare");
  if (given == nullptr || given->is_null()) {
    throw UserError(document.location, "compare",
                    fmt::format("the scenario says nothing to compare; add for example\n  {}",
                                decode_compare_detail::kExample));
  }
  const Value* sweep = document.find("sweep");
  if (sweep != nullptr && !sweep->is_null()) {
    throw UserError(location_of_key(document, "sweep"), "sweep",
                    "a comparison is of one graph; leave the sweep out with -s sweep=null");
  }
  const Decoder compare(*given, "compare");
  CompareSpec spec;
  if (!compare.has("policies")) {
    compare.fail(fmt::format("required key 'policies' is missing; for example\n  {}",
                             decode_compare_detail::kExample));
  }
  const Value bare = comparable(document, environment);
  spec.common = bare.find("policies")->items.size();
  const Scenario scenario = decode_scenario(bare, environment);
  if (!scenario.turns.empty()) {
    throw UserError(location_of_key(document, "training"), "training.turns",
                    "a comparison is of policies for one loss and its backward; compare them on "
                    "the model of a turn by itself, without training.turns");
  }
  const bool cost_graph = scenario.model.kind == ModelKind::kCostGraph;
  for (const Decoder& list : compare.required_child("policies").items()) {
    if (!list.value().is_sequence()) {
      list.fail(fmt::format("expected a list of policies such as [optimal: {{}}], found {}",
                            found(list.value())));
    }
    decode_compare_detail::CheckedList checked = decode_compare_detail::check_with_common(
        bare, list.value(), spec.lists.size(), cost_graph, environment);
    const decode_compare_detail::ListFacts& facts = checked.facts;
    spec.solves.push_back(facts.solves);
    spec.deciding.push_back(facts.deciding);
    spec.micro_batches.push_back(facts.micro_batches);
    spec.lists.push_back(std::move(checked.policies));
  }
  if (spec.lists.empty()) compare.fail_at("policies", "the list is empty; [[]] is no policy");
  if (compare.has("budgets")) {
    for (const Decoder& item : compare.required_child("budgets").items()) {
      const CompareSpec::Budget budget = decode_compare_detail::decode_budget(item);
      const bool bytes = !cost_graph && !budget.share;
      if (const std::string problem = bytes ? forgotten_unit(budget.bytes) : ""; !problem.empty())
        item.fail(problem);
      spec.budgets.push_back(budget);
    }
  }
  spec.limits.iterations =
      compare.optional<std::int64_t>("iterations", spec.limits.iterations, at_least(1));
  spec.limits.time = compare.optional<Duration>("time_limit", spec.limits.time);
  compare.finish();
  if (cost_graph && spec.budgets.empty()) {
    compare.fail("required key 'budgets' is missing; expected a list such as [50%, 40GiB]");
  }
  if (spec.lists.size() * spec.budgets.size() > decode_compare_detail::kMaxCompared) {
    compare.fail_at("budgets", fmt::format("{} points; at most {} can be compared",
                                           spec.lists.size() * spec.budgets.size(),
                                           decode_compare_detail::kMaxCompared));
  }
  return spec;
}

}  // namespace tidemark
