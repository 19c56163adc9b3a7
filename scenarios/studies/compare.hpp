// `compare`: lists of policies against memory budgets, all on one graph:
//   compare:
//     policies: [[], [checkpoint_every: {period: 1}], [optimal: {}]]   each a list as `policies`
//     budgets: [40GiB, 60GiB, 50%]   bytes, or a share of the peak without any policy
//     iterations: 5000               of searches, and
//     time_limit: 60s                of one plan
// A budget is held against the live bytes at the peak of the step, parameters and all. Policies
// that solve for a budget are asked once for each; what others do is judged by every budget.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "policies/plan/policy_base.hpp"
#include "scenarios/results/peak_terms.hpp"
#include "scenarios/studies/simulate_points.hpp"

namespace tidemark {

struct CompareSpec {
  struct Budget {
    Bytes bytes;
    std::optional<double> share;  // share of the peak without any policy, instead of bytes
  };
  // Lists of policies, each a value for `policies`; each begins with the scenario's own policies
  // that make the model what it is.
  std::vector<Value> lists;
  std::size_t common = 0;    // how many those are
  std::vector<bool> solves;  // whether each list is planned for each budget
  // By list: how many of its policies decide about memory; the others rewrite the model.
  std::vector<int> deciding;
  std::vector<int> micro_batches;  // micro-batches that a step of each list accumulates
  std::vector<Budget> budgets;     // as listed; empty: each list once, on the device's memory
  // Limits of a search and of a plan: unless the time limit is reached, plans do not depend on the
  // machine.
  SearchLimits limits{.iterations = 5'000, .time = std::chrono::seconds(60)};
};

// Reads `compare` and, with each of its lists as `policies`, the whole scenario. Policies of the
// scenario itself that rewrite the model stay: a comparison is of one model. Cost graphs need
// no `hardware`, and each of their lists is one policy for cost graphs, or none. Throws UserError:
// `compare` or its lists are missing, a policy or a budget is wrong, there is a sweep, too.
[[nodiscard]] CompareSpec decode_compare(const Value& document, const Environment& environment);

// One list of policies under one budget.
struct ComparePoint {
  std::size_t list = 0;        // index of CompareSpec::lists
  std::size_t evaluation = 0;  // points that share one have the same figures
  std::optional<Bytes> budget;
  // The figures; the status also says whether the budget is kept. For a cost graph these are those
  // of the evaluated schedule, with a nanosecond for each unit of cost.
  PointResult result;
  std::optional<PlanFigures> plan;  // plan of the policy that solves for a budget
  // Shares of the step without policies, 0.1 is 10 %: the time beyond it that was simulated, that
  // the plan adds by its kernels, and that is proven to be the least.
  std::optional<double> overhead;
  std::optional<double> planned_overhead;
  // No step of a plan of this class within the budget is shorter: it runs every kernel of the step
  // without policies, and recomputes no less than the bound of the plan says. Only where the list
  // is that one policy, on one device: others may take time off the plan, or add memory to it.
  std::optional<double> least_overhead;
  // The plan's cost over the best bound that is proven for its class and budget by any of the
  // policies; 0: the cost is the minimum over the schedules of the class. None where the list has
  // another policy that decides about memory: then the plan is not what was simulated.
  std::optional<double> gap;
  bool best = false;  // keeps its budget, and no other one has both less peak and less time
};

struct Comparison {
  std::string name;
  bool cost_graph = false;
  Bytes capacity;    // capacity of the device
  Value common;      // the scenario's own policies that every list has, and `base` alone
  PointResult base;  // the point without the policies that are compared
  std::vector<ComparePoint> points;  // lists x budgets, as listed; the list changes slowest
};

// Callbacks of `compare` while it runs; either may be empty.
struct CompareListener {
  std::function<void(std::size_t, std::size_t)> progress;  // receives the progress
  // Receives the run behind evaluation `evaluation`, for its charts; cost graphs have none. Where a
  // plan for less memory stands in, it is that plan's run. Called from the pool's threads, several
  // at a time.
  std::function<void(std::size_t evaluation, std::shared_ptr<const DetailedPoint>)> detail;
};

// Compares on `threads` threads; the result does not depend on them, unless time limits are
// reached. With more memory a list is never slower. Throws UserError as decode_compare() does, and
// for a model that cannot be built. A policy that is not for this graph is an error row.
[[nodiscard]] Comparison compare(const Value& document, const Environment& environment, int threads,
                                 const CompareListener& listener = {});

}  // namespace tidemark
