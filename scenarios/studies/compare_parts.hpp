// Parts that reading and running a comparison share.
#pragma once

#include <string>
#include <vector>

#include "policies/registry.hpp"
#include "policies/solver/plan_policy.hpp"
#include "scenarios/studies/compare.hpp"

namespace tidemark {

// One policy of a list that has been checked.
struct ListedPolicy {
  std::string name;
  Location location;
  Value parameters;  // null for a bare name
};
[[nodiscard]] std::vector<ListedPolicy> listed_policies(const Value& list);

// Gives `budget` to the policies of a scenario that take one and whose parameters, in the list that
// it was decoded from, have none; those that plan get `reserve` bytes less. Returns whether any
// takes it. A rewrite makes another model for each budget, and so training_key changes.
bool set_budgets(Scenario& scenario, const std::vector<ListedPolicy>& listed, Bytes budget,
                 Bytes reserve);

// The planner for a cost graph, with its request except for the budget. Throws UserError.
struct CostGraphPlanner {
  PlanFunction plan;
  PlanRequest request;
};
[[nodiscard]] CostGraphPlanner cost_graph_planner(const ListedPolicy& listed,
                                                  const std::string& path);

// The policies that the scenario itself lists, apart from those to compare; memory_elastic is none.
struct OwnPolicies {
  Value common;  // those that make the model what it is, such as lora or fsdp: every list has them
  Value deciding;  // those that decide about memory: a list of its own
};
// A cost graph has none: each of its lists is one policy. Throws UserError.
[[nodiscard]] OwnPolicies own_policies(const Value& document, const Environment& environment);

// Returns the document as a scenario of its own: without `compare`, with the policies only that all
// lists have in common.
[[nodiscard]] Value comparable(const Value& document, const Environment& environment);

}  // namespace tidemark
