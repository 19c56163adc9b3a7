// Compiles a step and its training graph to a verified program, in one pass over all stages.
#pragma once

#include <optional>
#include <vector>

#include "policies/plan/residency_plan.hpp"
#include "sim/step/compiled.hpp"
#include "sim/step/step_spec.hpp"
#include "sim/step/trained_model.hpp"

namespace tidemark {

struct CompileOptions {
  std::optional<int> steps;  // overrides the steps of the spec
  // Decisions that the same policies made for the same model with less memory; null if there are
  // none.
  const std::vector<PolicyOutcome>* smaller_budget = nullptr;
  // The order of a policy that orders for the whole device; trial runs find it where there is none.
  std::optional<DeviceOrder> device_order = {};
};

// Returns the order of the parts of a step, before policies change it.
[[nodiscard]] StepSchedule schedule_of(const TrainedModel& model, StepMode mode);

// Orders, plans, lowers and verifies. Throws InternalError when verification fails, UserError where
// policies and allocator do not go together.
[[nodiscard]] Compiled compile(const StepSpec& spec, const TrainedModel& model,
                               const CompileOptions& options = {});

}  // namespace tidemark
