// A policy of checkpoint placement: it turns a cost graph and a budget into a schedule. `tidemark
// plan` and scenarios use the same.
#pragma once

#include <functional>
#include <string_view>

#include "graph/core/decoder.hpp"
#include "policies/solver/plan_result.hpp"

namespace tidemark {

// Makes a plan. Throws UserError where the graph is not of the kind that the policy is for, such as
// a chain.
using PlanFunction = std::function<PlanResult(const RematProblem&, const PlanRequest&)>;

// The keys of a request that have an effect on a policy's plans.
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
  SearchKeys search = {};
  // Whether `budget: 0.5` means a share of the bytes that are saved from forward to backward.
  bool shares = false;
  // Whether every schedule of the request's class is open to it, those of other policies included.
  bool any_schedule = false;
};

}  // namespace tidemark
