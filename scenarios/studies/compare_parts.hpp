// Parts that reading and running a comparison share.
#pragma once

#include <string>
#include <string_view>
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

// The keys that a policy reads, whatever its kind and wherever it was compiled.
class PolicyKeys {
 public:
  explicit PolicyKeys(const PolicyEntry& entry);
  [[nodiscard]] bool has(std::string_view key) const;
  // Whether it takes the budgets of a comparison: it has a key `budget` of bytes.
  [[nodiscard]] bool has_budget() const;

 private:
  std::vector<ParameterNote> notes_;
};

// The planner for a cost graph, with its request except for the budget. Throws UserError.
struct CostGraphPlanner {
  PlanFunction plan;
  PlanRequest request;
};
[[nodiscard]] CostGraphPlanner cost_graph_planner(const ListedPolicy& listed,
                                                  const std::string& path);

// Returns the document as a scenario of its own: without `compare`, with no policies.
[[nodiscard]] Value comparable(const Value& document, const Environment& environment);

}  // namespace tidemark
