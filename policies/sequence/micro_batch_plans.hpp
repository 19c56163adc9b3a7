// The micro-batches of a program and the cost graph of each that differs from the others.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "graph/core/units.hpp"
#include "policies/plan/policy.hpp"
#include "policies/remat/problem.hpp"
#include "policies/solver/step_costs.hpp"

namespace tidemark {

// A micro-batch of one step: neighbouring positions [begin, end).
struct MicroBatch {
  Position begin;
  Position end;
  std::size_t plan = 0;  // index of its plan among the distinct ones
};

struct MicroBatchPlan {
  std::vector<OperatorId> operators;
  StepCosts costs;
  RematProblem problem;
  // The problem with only the offloaded values on the device that each operator itself touches, the
  // least that any schedule needs; set if values are fetched. Its bounds hold for every order of
  // fetches.
  std::optional<RematProblem> fetched_least;
  Schedule schedule;
  Bytes budget;        // the budget that was requested
  std::string reason;  // why no schedule fits, if none does
};

// Returns the micro-batches of each step with their forward and backward operators. `plans`
// receives one entry per list of operators.
[[nodiscard]] std::vector<MicroBatch> find_micro_batches(const PolicyContext& context,
                                                         std::vector<MicroBatchPlan>& plans);

// Fills in the problems of the plans, each with the schedule that computes every node once.
// `unrestricted`: the schedules may change the order of first evaluations.
void make_problems(const PolicyContext& context, std::span<const MicroBatch> micro_batches,
                   bool unrestricted, std::vector<MicroBatchPlan>& plans);

}  // namespace tidemark
