#include "scenarios/compile.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "graph/autodiff/differentiate.hpp"
#include "graph/core/errors.hpp"
#include "graph/import/hf_config.hpp"
#include "graph/import/layer_model.hpp"
#include "graph/import/onnx/import_onnx.hpp"
#include "graph/models/preset.hpp"
#include "policies/rewrite/accumulate.hpp"
#include "policies/solver/step_costs.hpp"
#include "scenarios/policy_rounds.hpp"
#include "scenarios/read/decode_parts.hpp"
#include "scenarios/saved_tensors.hpp"
#include "sim/program/verify.hpp"

namespace tidemark {
namespace {

Graph build_model(const Scenario& scenario) {
  ModelOptions options = scenario.training.model;
  options.dtype = rules_of(scenario.training.precision).model;
  if (scenario.model.kind == ModelKind::kHuggingFace) {
    const Value document = read_document(scenario.model.name);
    return import_hf_config(Decoder(document), scenario.model.name, options);
  }
  if (scenario.model.kind == ModelKind::kOnnx) {
    return import_onnx(scenario.model.name, scenario.model.onnx, options);
  }
  if (scenario.model.kind == ModelKind::kLayers) {
    const bool is_file = !scenario.model.name.empty();
    const Value document =
        is_file ? read_document(scenario.model.name) : scenario.model.inline_layers;
    return build_layer_model(Decoder(document, is_file ? "" : "model.layers"),
                             Decoder(scenario.model.overrides, "model.sizes"),
                             model_title(scenario.model), options);
  }
  const ModelPreset preset = find_preset(scenario.model.name, scenario.model.location, "model");
  return preset.build(Decoder(scenario.model.overrides, "model"), options);
}

template <class Seam>
std::vector<const Seam*> policies_of(const Scenario& scenario) {
  std::vector<const Seam*> found;
  for (const AnyPolicy& policy : scenario.policies) {
    if (const auto* p = std::get_if<std::unique_ptr<Seam>>(&policy)) found.push_back(p->get());
  }
  return found;
}

// Rewrites apply by stage, whatever order the scenario lists them in.
template <class Rewrite>
std::vector<const Rewrite*> by_stage(std::vector<const Rewrite*> rewrites) {
  std::stable_sort(rewrites.begin(), rewrites.end(),
                   [](const Rewrite* a, const Rewrite* b) { return a->stage() < b->stage(); });
  return rewrites;
}

TrainingGraph train_model(const Scenario& scenario, std::vector<PassTime>& passes) {
  const TrainingOptions& training = scenario.training;
  Graph graph = run_pass(passes, "model", [&] { return build_model(scenario); });

  if (graph.trainable_parameter_count() == 0) {
    throw UserError({}, "model",
                    fmt::format("'{}' has no parameters, so there is nothing to train; add a layer "
                                "with weights, such as a linear one",
                                graph.name));
  }
  const RewriteContext context = rewrite_context(scenario);
  std::vector<const ForwardRewrite*> forward = policies_of<ForwardRewrite>(scenario);
  const PrecisionRules& precision = rules_of(training.precision);
  std::optional<Autocast> autocast;
  if (precision.autocast) {
    autocast.emplace(*precision.autocast, training.autocast_cache, *training.framework);
    forward.push_back(&*autocast);
  }
  for (const ForwardRewrite* rewrite : by_stage(std::move(forward))) {
    graph = run_pass(passes, rewrite->name(), [&] { return rewrite->apply(graph, context); });
  }

  TrainingGraph result = run_pass(passes, "differentiate", [&] {
    return differentiate(
        graph, *training.framework,
        {.hold_output = training.hold_output, .gradient_dtype = training.gradient_dtype});
  });

  std::vector<const TrainingRewrite*> rewrites = policies_of<TrainingRewrite>(scenario);
  const Accumulate accumulate(static_cast<int>(training.accumulate), training.zero_grad);
  const Optimizer optimizer(training.optimizer, precision, *training.framework);
  const Tf32 tf32;
  rewrites.insert(rewrites.end(), {&accumulate, &optimizer});
  if (precision.tf32) rewrites.push_back(&tf32);
  for (const TrainingRewrite* rewrite : by_stage(std::move(rewrites))) {
    run_pass(passes, rewrite->name(), [&] { rewrite->apply(result, context); });
  }
  check_invariants(result);
  return result;
}

void sum_roles(TrainedModel& model) {
  for (const Storage& storage : model.training.storages) {
    if (!storage.persistent && !storage.initial) continue;
    if (storage.role == Role::kParameter) model.parameters += storage.bytes;
    if (storage.role == Role::kBuffer) model.buffers += storage.bytes;
    if (storage.role == Role::kInput) model.inputs += storage.bytes;
    if (storage.role == Role::kGradient) model.gradients += storage.bytes;
    if (storage.role == Role::kOptimizerState) model.optimizer_state += storage.bytes;
  }
}

// The policy that decides while the program runs, or null. Throws UserError when the allocator
// leaves it nothing to decide with.
EvictionPolicy* eviction_of(const Scenario& scenario) {
  EvictionPolicy* eviction = nullptr;
  for (const AnyPolicy& policy : scenario.policies) {
    if (const auto* p = std::get_if<std::unique_ptr<EvictionPolicy>>(&policy)) eviction = p->get();
  }
  if (eviction == nullptr) return nullptr;
  if (eviction->looks_at_addresses() && scenario.allocator == AllocatorKind::kIdeal) {
    throw UserError({}, "allocator",
                    fmt::format("the eviction heuristic '{}' looks at addresses, and 'ideal' has "
                                "none; use torch or bfc",
                                eviction->name()));
  }
  if (scenario.allocator == AllocatorKind::kPacked) {
    throw UserError({}, "allocator",
                    "'packed' plans all addresses ahead of the run, but the eviction policy "
                    "decides during it; use torch or ideal");
  }
  return eviction;
}

// The plain order, without any policy.
OrderedStep plain_step(const TrainingGraph& graph, int steps, std::vector<PassTime>& passes) {
  OrderedStep step;
  step.order = run_pass(passes, "order", [&] { return program_order(graph, steps); });
  step.live = run_pass(passes, "liveness", [&] { return analyze_liveness(graph, step.order); });
  return step;
}

std::vector<PolicyOutcome> named_outcomes(const Scenario& scenario) {
  std::vector<PolicyOutcome> outcomes(scenario.policies.size());
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    outcomes[i].name = scenario.policy_names[i];
  }
  return outcomes;
}

// Lowers the step with what was decided about its gaps and verifies the program against the order
// without policies.
void lower_step(const Scenario& scenario, const TrainingGraph& graph, const ProgramOrder& plain,
                const OrderedStep& step, const ResidencyPlan& movement, Compiled& result) {
  result.program = run_pass(result.passes, "lower", [&] {
    return lower(graph, step.order, step.live, movement.decisions(), libraries_of(scenario),
                 movement.throttles());
  });
  const std::vector<std::string> problems = run_pass(
      result.passes, "verify", [&] { return verify(graph, plain, step.order, result.program); });
  if (!problems.empty()) {
    throw InternalError(
        fmt::format("the program of '{}' is wrong: {}", scenario.name, fmt::join(problems, "; ")));
  }
  result.saved = saved_tensors(graph, step.order, step.live, movement.decisions());
}

}  // namespace

TrainedModel build_training(const Scenario& scenario) {
  TrainedModel model;
  if (scenario.model.kind == ModelKind::kCostGraph) {
    model.training = run_pass(model.passes, "cost graph",
                              [&] { return training_graph(read_cost_graph(scenario.model.name)); });
  } else {
    model.training = train_model(scenario, model.passes);
  }
  sum_roles(model);
  const TrainingGraph& t = model.training;
  model.forward_flops = t.flops_of(t.forward);
  model.step_flops =
      (model.forward_flops + t.flops_of(t.backward)) * static_cast<double>(t.micro_batches);
  return model;
}

LibraryWorkspaces libraries_of(const Scenario& scenario) {
  if (!scenario.training.framework->library_workspaces) return {};
  const FrameworkProfile& figures = scenario.device.framework;
  return {figures.cublas_workspace, figures.cudnn_filter_copies};
}

DeviceProfile device_of(const Scenario& scenario) {
  DeviceProfile device = scenario.device;
  const LibraryWorkspaces libraries = libraries_of(scenario);
  device.framework.cublas_workspace = libraries.matmul;
  device.framework.cudnn_filter_copies = libraries.convolution;
  return device;
}

CostGraph cost_graph_of(const Scenario& scenario, const TrainingGraph& graph) {
  const CostTable costs = price(graph, CostModel(scenario.device));
  return step_costs(graph, micro_batch_of(graph), costs.device, false,
                    device_of(scenario).framework)
      .graph;
}

Compiled compile(const Scenario& scenario, const TrainedModel& model, std::optional<int> steps,
                 const std::vector<PolicyOutcome>* smaller_budget) {
  const TrainingGraph& graph = model.training;
  Compiled result;
  if (smaller_budget != nullptr) result.smaller_budget = *smaller_budget;
  result.costs = run_pass(result.passes, "price",
                          [&] { return price(graph, CostModel(scenario.device), scenario.count); });
  result.policies = named_outcomes(scenario);
  const DeviceProfile device = device_of(scenario);
  const RoundContext context{.scenario = scenario,
                             .graph = graph,
                             .costs = result.costs,
                             .device = device,
                             .outcomes = result.policies,
                             .passes = result.passes,
                             .rewrites = policies_of<TrainingRewrite>(scenario)};

  OrderedStep step = plain_step(graph, steps.value_or(scenario.training.steps), result.passes);
  const ProgramOrder plain = step.order;
  SequenceRound(context, smaller_budget).run(step);
  RecomputationRound recomputation(context, std::move(step));
  recomputation.run();
  MovementRound movement(context, recomputation.result());
  recomputation.finish(movement.plan());
  movement.run();

  lower_step(scenario, graph, plain, recomputation.result(), movement.plan(), result);
  result.order = recomputation.take_order();
  result.eviction = eviction_of(scenario);
  if (scenario.allocator == AllocatorKind::kPacked) {
    result.placement =
        run_pass(result.passes, "pack", [&] { return place_program(result.program); });
  }
  return result;
}

}  // namespace tidemark
