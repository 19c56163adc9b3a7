// PlanStatus says what is known of a plan for a budget.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tidemark {

enum class PlanStatus : std::uint8_t {
  kOptimal,     // no schedule of the class is cheaper: proven
  kFeasible,    // fits; a cheaper one may exist
  kInfeasible,  // no schedule of the class fits: proven
  kUnknown,     // no schedule that fits was found
};
inline constexpr int kPlanStatusCount = 4;
inline constexpr std::array<std::string_view, kPlanStatusCount> kPlanStatusNames{
    "optimal", "feasible", "infeasible", "unknown"};
[[nodiscard]] constexpr std::string_view name_of(PlanStatus status) {
  return kPlanStatusNames[static_cast<std::size_t>(status)];
}
// Whether there is a schedule that keeps to the budget.
[[nodiscard]] constexpr bool has_schedule(PlanStatus status) {
  return status == PlanStatus::kOptimal || status == PlanStatus::kFeasible;
}

}  // namespace tidemark
