#include "sim/step/compile.hpp"

#include <algorithm>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "graph/analysis/liveness.hpp"
#include "graph/core/errors.hpp"
#include "policies/rewrite/pipeline.hpp"
#include "sim/program/copy_on_write.hpp"
#include "sim/program/lower.hpp"
#include "sim/program/program_sizes.hpp"
#include "sim/program/saved_tensors.hpp"
#include "sim/program/verify.hpp"
#include "sim/step/pass_checks.hpp"
#include "sim/step/policy_passes.hpp"
#include "sim/step/shared_programs.hpp"
#include "sim/step/step_device.hpp"
#include "sim/step/trial_run.hpp"

namespace tidemark {
namespace compile_detail {
namespace {

// Returns the policy that decides while the program runs, or null. Throws UserError when the
// allocator leaves it nothing to decide with.
const EvictionPolicy* eviction_of(const StepSpec& spec) {
  const EvictionPolicy* eviction = nullptr;
  for (const AnyPolicy& policy : spec.policies) {
    if (const auto* p = std::get_if<std::unique_ptr<EvictionPolicy>>(&policy)) eviction = p->get();
  }
  if (eviction == nullptr) return nullptr;
  if (eviction->looks_at_addresses() && !spec.allocator->traits().has_addresses) {
    throw UserError({}, "allocator",
                    fmt::format("the eviction heuristic '{}' looks at addresses, and '{}' has "
                                "none; use torch or bfc",
                                eviction->name(), spec.allocator->traits().name));
  }
  if (spec.allocator->traits().plans_ahead) {
    throw UserError({}, "allocator",
                    fmt::format("'{}' plans all addresses ahead of the run, but the eviction "
                                "policy decides during it; use torch or ideal",
                                spec.allocator->traits().name));
  }
  return eviction;
}

// Returns the plain order, without any policy.
OrderedStep plain_step(const TrainedModel& model, StepMode mode, int steps,
                       std::vector<PassTime>& passes) {
  const TrainingGraph& graph = model.training;
  OrderedStep step;
  StepSchedule schedule;
  step.order = run_pass(
      passes, "order",
      [&] {
        schedule = schedule_of(model, mode);
        return program_order(graph, schedule, steps);
      },
      [&](const ProgramOrder& order) { check_scheduled(graph, schedule, order); });
  step.live = run_pass(
      passes, "liveness", [&] { return analyze_liveness(graph, step.order); },
      [&](const Liveness& live) { check_liveness(graph, step.order, live); });
  return step;
}

std::vector<PolicyOutcome> named_outcomes(const StepSpec& spec) {
  std::vector<PolicyOutcome> outcomes(spec.policies.size());
  for (std::size_t i = 0; i < outcomes.size(); ++i)
    outcomes[i].name = spec.policy_names[i];
  return outcomes;
}

// The decisions of a pipeline are the pieces that it cuts the model into.
void count_pieces(const StepSpec& spec, const TrainedModel& model,
                  std::vector<PolicyOutcome>& outcomes) {
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    const auto* rewrite = std::get_if<std::unique_ptr<ForwardRewrite>>(&spec.policies[i]);
    const PipelineOptions* pipeline = rewrite != nullptr ? (*rewrite)->pipeline() : nullptr;
    if (pipeline != nullptr && !model.work.empty()) outcomes[i].decided = pipeline->pieces();
  }
}

// Lowers the step with what was decided about its gaps. The program is verified against `plain`,
// the order without policies.
StepProgram lower_step(const StepSpec& spec, const TrainingGraph& graph, const ProgramOrder& plain,
                       const PlannedStep& planned, std::vector<PassTime>& passes) {
  const auto check = [&](const StepProgram& program) {
    const std::vector<std::string> problems = run_pass(
        passes, "verify", [&] { return verify(graph, plain, planned.step.order, program); });
    if (problems.empty()) return;
    throw InternalError(
        fmt::format("the program of '{}' is wrong: {}", spec.name, fmt::join(problems, "; ")));
  };
  return run_pass(
      passes, "lower",
      [&] {
        return lower(graph, planned.step.order, planned.step.live, planned.movement.decisions(),
                     libraries_of(spec), planned.movement.throttles());
      },
      check);
}

// Whether all policies decide by structure before the step runs.
bool decides_by_structure(const StepSpec& spec) {
  return std::all_of(spec.policies.begin(), spec.policies.end(), [](const AnyPolicy& policy) {
    return policy_of(policy).decides_by_structure();
  });
}

// Returns the text that names everything which a program follows from but what policies decide by
// sizes, times and the device; none where the model shares no programs.
std::optional<std::string> key_of(const StepSpec& spec, const TrainedModel& model, int steps) {
  const bool known = spec.policies.empty() || !spec.policies_key.empty();
  if (model.programs == nullptr || !known || !model.work.empty()) return std::nullopt;
  const LibraryWorkspaces libraries = libraries_of(spec);
  return fmt::format("{} {} {} {} {} {}", model.structure.value,
                     spec.training.mode == StepMode::kTrain, steps, libraries.matmul > Bytes(0),
                     libraries.convolution, spec.policies.empty() ? "" : spec.policies_key);
}

// Takes order, program and saved tensors from a step whose graph differs in sizes alone.
void take_program(const StepSpec& spec, const TrainingGraph& graph, const SharedProgram& known,
                  Compiled& result) {
  run_pass(result.passes, "take program", [&] {
    result.order = known.order;
    result.saved = known.saved;
    result.program = known.program;
    take_sizes(result.program, graph, result.order, libraries_of(spec));
  });
}

// Orders, plans and lowers the step, and keeps its program for others.
void make_program(const StepSpec& spec, const TrainedModel& model, const CompileOptions& options,
                  const std::optional<std::string>& key,
                  const std::shared_ptr<const SharedProgram>& known, Compiled& result) {
  const TrainingGraph& graph = model.training;
  const PolicyPasses policies(spec, graph, result.costs, result.passes, [&](const OrderedStep& at) {
    return std::make_unique<const StepTrial>(spec, graph, result.costs, at.order, at.live);
  });
  const int steps = options.steps.value_or(spec.training.steps);
  OrderedStep step = plain_step(model, spec.training.mode, steps, result.passes);
  const ProgramOrder plain = step.order;
  policies.order(step, options.smaller_budget, result.device_order, result.policies);
  const std::unique_ptr<PlannedStep> planned = policies.plan(std::move(step), result.policies);
  if (known != nullptr && is_planned_alike(*known, *planned)) {
    take_program(spec, graph, *known, result);
    return;
  }
  result.program = lower_step(spec, graph, plain, *planned, result.passes);
  result.saved =
      saved_tensors(graph, planned->step.order, planned->step.live, planned->movement.decisions());
  std::optional<SharedProgram> shared;
  if (key) shared = shared_program(graph, *planned, result.program, libraries_of(spec));
  if (shared) {
    shared->saved = result.saved;
    shared->outcomes = result.policies;
    model.programs->keep(*key, std::make_shared<const SharedProgram>(std::move(*shared)));
  }
  result.order = std::move(planned->step.order);
}

Compiled compile_stages(const StepSpec& spec, const TrainedModel& model,
                        const CompileOptions& options) {
  Compiled result;
  for (const std::shared_ptr<const TrainedModel>& stage : model.stages)
    result.stages.push_back(compile(spec, *stage, options));
  return result;
}

}  // namespace
}  // namespace compile_detail

StepSchedule schedule_of(const TrainedModel& model, StepMode mode) {
  const TrainingGraph& graph = model.training;
  const bool trains = mode == StepMode::kTrain;
  if (model.work.empty()) return trains ? training_schedule(graph) : forward_schedule(graph);
  return trains ? training_schedule(graph, model.work) : forward_schedule(graph, model.work);
}

Compiled compile(const StepSpec& spec, const TrainedModel& model, const CompileOptions& options) {
  if (!model.stages.empty()) return compile_detail::compile_stages(spec, model, options);
  const TrainingGraph& graph = model.training;
  Compiled result{.policies = compile_detail::named_outcomes(spec),
                  .eviction = compile_detail::eviction_of(spec)};
  compile_detail::count_pieces(spec, model, result.policies);
  if (options.smaller_budget != nullptr) result.smaller_budget = *options.smaller_budget;
  const int steps = options.steps.value_or(spec.training.steps);
  result.costs = run_pass(
      result.passes, "price",
      [&] { return price(graph, CostModel(spec.device), spec.mesh, spec.training.host); },
      [&](const CostTable& costs) {
        check_time(graph, costs, steps);
        check_prices(graph, costs);
      });
  result.device_order = options.device_order;
  const std::optional<std::string> key = compile_detail::key_of(spec, model, steps);
  const std::shared_ptr<const SharedProgram> known = key ? model.programs->find(*key) : nullptr;
  if (known != nullptr && compile_detail::decides_by_structure(spec)) {
    compile_detail::take_program(spec, graph, *known, result);
    result.policies = known->outcomes;
  } else {
    compile_detail::make_program(spec, model, options, key, known, result);
  }
  if (result.eviction != nullptr) {
    result.program = run_pass(
        result.passes, "copy on write", [&] { return copy_on_write(result.program); },
        [&](const StepProgram& copied) { check_copies(result.program, copied); });
  }
  if (spec.allocator->traits().plans_ahead) {
    result.placement =
        run_pass(result.passes, "pack", [&] { return spec.allocator->place(result.program); });
  }
  return result;
}

}  // namespace tidemark
