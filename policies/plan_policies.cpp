#include "policies/plan_policies.hpp"

#include <cstddef>
#include <vector>

#include "policies/recompute/entries.hpp"
#include "policies/solver/solver_policies.hpp"

namespace tidemark {
namespace plan_policies_detail {
namespace {

// Makes all policies of checkpoint placement. Those that decide by blocks and kinds of operators
// follow Chen's.
std::vector<PlanPolicy> make_plan_policies() {
  constexpr std::size_t kChen = 3;  // keep_all, chen_sqrt, chen_greedy
  const std::span<const PlanPolicy> solvers = solver_policies();
  std::vector<PlanPolicy> all(solvers.begin(), solvers.begin() + kChen);
  all.insert(all.end(), {checkpoint_every_plan(), selective_plan(), megatron_selective_plan(),
                         revolve_plan()});
  all.insert(all.end(), solvers.begin() + kChen, solvers.end());
  return all;
}

}  // namespace
}  // namespace plan_policies_detail

std::span<const PlanPolicy> plan_policies() {
  static const std::vector<PlanPolicy> all = plan_policies_detail::make_plan_policies();
  return all;
}

const PlanPolicy* find_plan_policy(std::string_view name) {
  for (const PlanPolicy& policy : plan_policies()) {
    if (policy.name == name) return &policy;
  }
  return nullptr;
}

}  // namespace tidemark
