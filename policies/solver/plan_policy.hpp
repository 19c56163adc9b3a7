// The policies of checkpoint placement by name: each turns a cost graph and a budget into a
// schedule. `tidemark plan` and scenarios use the same.
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

// Which keys of a request have an effect on a policy's plans.
struct SearchKeys {
  bool iterations = false;
  bool time_limit = false;
  bool seed = false;
};

struct PlanPolicy {
  std::string_view name;
  std::string_view summary;  // one sentence
  std::string_view source;   // paper or program that defines it
  // Reads the policy's own parameters; the caller reads those of the request and finishes.
  PlanFunction (*decode)(const Decoder& parameters);
  SearchKeys search;
  // Whether `budget: 0.5` means a share of the bytes that are saved from forward to backward.
  bool shares = false;
};

[[nodiscard]] std::span<const PlanPolicy> plan_policies();
[[nodiscard]] const PlanPolicy* find_plan_policy(std::string_view name);

// What a policy takes beside its own parameters: budget, class and, where they have an effect,
// iterations, time_limit and seed; elsewhere these throw UserError. Keys that are absent stay as in
// `request`. With iterations and no time limit there is none.
[[nodiscard]] PlanRequest decode_request(const Decoder& parameters, const PlanPolicy& policy,
                                         PlanRequest request);

// Every policy with every budget: result[policy][budget]. Each policy starts from its plan for the
// next smaller budget, so that more memory never makes a plan worse; a bound proven for a larger
// budget holds for the smaller ones. The time limit is that of one plan.
[[nodiscard]] std::vector<std::vector<PlanResult>> plan_grid(const RematProblem& problem,
                                                             std::span<const PlanFunction> policies,
                                                             std::span<const std::int64_t> budgets,
                                                             const PlanRequest& request);

// The cheapest of the candidates that fits and is of the class; where none fits, that of the least
// peak, with status unknown. `policy` is named in the reason.
[[nodiscard]] PlanResult choose_schedule(const RematProblem& problem, const PlanRequest& request,
                                         std::string_view policy, std::vector<Schedule> candidates);

}  // namespace tidemark
