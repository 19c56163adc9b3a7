// The policies of `tidemark plan` by name: each turns a cost graph and a budget into a schedule.
#pragma once

#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "graph/core/decoder.hpp"
#include "policies/solver/optimal.hpp"

namespace tidemark {

// Throws UserError where the graph is not of the kind that the policy is for, such as a chain.
using PlanFunction = std::function<PlanResult(const RematProblem&, const PlanRequest&)>;

struct PlanPolicy {
  std::string_view name;
  std::string_view summary;  // one sentence
  std::string_view source;   // paper or program that defines it
  PlanFunction (*decode)(const Decoder& parameters);
};

[[nodiscard]] std::span<const PlanPolicy> plan_policies();
[[nodiscard]] const PlanPolicy* find_plan_policy(std::string_view name);

// The cheapest of the candidates that fits and is of the class; where none fits, that of the least
// peak, with status unknown. `policy` is named in the reason.
[[nodiscard]] PlanResult choose_schedule(const RematProblem& problem, const PlanRequest& request,
                                         std::string_view policy, std::vector<Schedule> candidates);

}  // namespace tidemark
