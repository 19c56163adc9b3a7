#include "policies/plan_policies.hpp"

#include <algorithm>
#include <array>
#include <cstddef>

#include "policies/recompute/entries.hpp"
#include "policies/solver/solver_policies.hpp"

namespace tidemark {
namespace {

constexpr std::size_t kPlanPolicies = 12;

// Those that decide by blocks and kinds of operators stand behind Chen's.
std::array<PlanPolicy, kPlanPolicies> make_plan_policies() {
  constexpr std::size_t kChen = 3;  // keep_all, chen_sqrt, chen_greedy
  const std::span<const PlanPolicy> solvers = solver_policies();
  const std::array by_kind = {checkpoint_every_plan(), selective_plan(), megatron_selective_plan(),
                              revolve_plan()};
  std::array<PlanPolicy, kPlanPolicies> all{};
  auto next = std::copy_n(solvers.begin(), kChen, all.begin());
  next = std::copy(by_kind.begin(), by_kind.end(), next);
  std::copy(solvers.begin() + kChen, solvers.end(), next);
  return all;
}

}  // namespace

std::span<const PlanPolicy> plan_policies() {
  static const std::array<PlanPolicy, kPlanPolicies> kAll = make_plan_policies();
  return kAll;
}

const PlanPolicy* find_plan_policy(std::string_view name) {
  for (const PlanPolicy& policy : plan_policies()) {
    if (policy.name == name) return &policy;
  }
  return nullptr;
}

}  // namespace tidemark
