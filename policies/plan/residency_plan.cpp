#include "policies/plan/residency_plan.hpp"

namespace tidemark {

void ResidencyPlan::begin_policy(std::size_t index, std::string_view name) {
  if (outcomes_.size() <= index) outcomes_.resize(index + 1);
  outcomes_[index].name = std::string(name);
  current_ = index;
}

GroupId ResidencyPlan::add_group(RecomputeGroup group) {
  group_policy_.push_back(current_);
  return groups_.push_back(std::move(group));
}

bool ResidencyPlan::decide(GapId gap, Decision decision) {
  PolicyOutcome& outcome = outcomes_[current_];
  if (!live_.gaps[gap].open()) {
    ++outcome.refused;
    return false;
  }
  if (decided(gap)) {
    ++outcome.contested;
    return false;
  }
  decisions_[gap] = decision;
  ++outcome.decided;
  return true;
}

}  // namespace tidemark
