#include "policies/plan_policies.hpp"

#include <vector>

#include "policies/registry.hpp"

namespace tidemark {

std::span<const PlanPolicy> plan_policies() {
  static const std::vector<PlanPolicy> all = [] {
    const PolicyRegistry registry;
    std::vector<PlanPolicy> found;
    for (const PolicyEntry& entry : registry.entries()) {
      if (entry.plan != nullptr) found.push_back(entry.plan());
    }
    return found;
  }();
  return all;
}

const PlanPolicy* find_plan_policy(std::string_view name) {
  for (const PlanPolicy& policy : plan_policies()) {
    if (policy.name == name) return &policy;
  }
  return nullptr;
}

}  // namespace tidemark
