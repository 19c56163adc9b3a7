#include "scenarios/compile.hpp"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "graph/autodiff/differentiate.hpp"
#include "graph/core/errors.hpp"
#include "graph/import/cost_graph.hpp"
#include "graph/import/hf_config.hpp"
#include "graph/import/layer_model.hpp"
#include "graph/import/onnx/import_onnx.hpp"
#include "graph/models/preset.hpp"
#include "policies/rewrite/accumulate.hpp"
#include "scenarios/decode_parts.hpp"
#include "scenarios/replay.hpp"
#include "scenarios/run_compiled.hpp"
#include "scenarios/saved_tensors.hpp"
#include "sim/program/verify.hpp"

namespace tidemark {
namespace {

// Runs a pass and notes how long it took.
template <class F>
auto run_pass(std::vector<PassTime>& passes, std::string_view name, F&& pass) {
  const auto begin = std::chrono::steady_clock::now();
  auto result = pass();
  passes.push_back({std::string(name), std::chrono::steady_clock::now() - begin});
  return result;
}

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
  std::vector<const ForwardRewrite*> forward = policies_of<ForwardRewrite>(scenario);
  const PrecisionRules& precision = rules_of(training.precision);
  std::optional<Autocast> autocast;
  if (precision.autocast) {
    autocast.emplace(*precision.autocast, training.autocast_cache, *training.framework);
    forward.push_back(&*autocast);
  }
  for (const ForwardRewrite* rewrite : by_stage(std::move(forward))) {
    graph = run_pass(passes, rewrite->name(), [&] { return rewrite->apply(graph); });
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
    run_pass(passes, rewrite->name(), [&] {
      rewrite->apply(result);
      return 0;
    });
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

std::int64_t repeats_in_last_step(const ProgramOrder& order) {
  return std::count_if(order.at.begin(), order.at.end(), [&](const Occurrence& o) {
    return o.recompute && o.step + 1 == order.steps;
  });
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

Compiled compile(const Scenario& scenario, const TrainedModel& model, std::optional<int> steps,
                 const std::vector<PolicyOutcome>* smaller_budget) {
  const TrainingGraph& graph = model.training;
  Compiled result;
  if (smaller_budget != nullptr) result.smaller_budget = *smaller_budget;
  std::vector<PassTime>& passes = result.passes;
  result.costs = run_pass(passes, "price",
                          [&] { return price(graph, CostModel(scenario.device), scenario.count); });
  const DeviceProfile device = device_of(scenario);
  const auto context = [&](const ProgramOrder& order, const Liveness& live) {
    return PolicyContext{.graph = graph,
                         .order = order,
                         .live = live,
                         .durations = result.costs.device,
                         .device = device,
                         .beside_allocator = bytes_beside_allocator(scenario)};
  };

  const ProgramOrder plain = run_pass(passes, "order", [&] {
    return program_order(graph, steps.value_or(scenario.training.steps));
  });
  Liveness live = run_pass(passes, "liveness", [&] { return analyze_liveness(graph, plain); });

  // What is computed again, by explicit orders and then by decisions about gaps.
  result.order = plain;
  result.policies.resize(scenario.policies.size());
  for (std::size_t i = 0; i < scenario.policies.size(); ++i) {
    result.policies[i].name = scenario.policy_names[i];
    const auto* sequence = std::get_if<std::unique_ptr<SequencePolicy>>(&scenario.policies[i]);
    if (sequence == nullptr) continue;
    const std::int64_t before = repeats_in_last_step(result.order);
    result.order = run_pass(passes, (*sequence)->name(), [&] {
      PolicyContext asked = context(result.order, live);
      if (smaller_budget != nullptr) asked.smaller_budget = &(*smaller_budget)[i];
      return (*sequence)->order(asked, result.policies[i]);
    });
    result.policies[i].recomputed_operators = repeats_in_last_step(result.order) - before;
    live = analyze_liveness(graph, result.order);
  }
  // By gap of the first round: the policy that moves it.
  IdVector<GapId, std::size_t> movers;
  const auto ask = [&](ResidencyPlan& plan, const Liveness& lives, auto question) {
    for (std::size_t i = 0; i < scenario.policies.size(); ++i) {
      plan.begin_policy(i, scenario.policy_names[i]);
      movers.resize(plan.decisions().size());
      for (GapId gap : ids_of(plan.decisions())) {
        if (!plan.decided(gap)) movers[gap] = i;
      }
      const ScenarioReplay replay(scenario, graph, result.costs, result.order, lives);
      PolicyContext asked = context(result.order, lives);
      asked.replay = &replay;
      question(scenario.policies[i], asked, plan);
    }
  };
  const auto add_outcomes = [&](const ResidencyPlan& plan) {
    for (std::size_t i = 0; i < plan.outcomes().size(); ++i) {
      PolicyOutcome& sum = result.policies[i];
      const PolicyOutcome& outcome = plan.outcomes()[i];
      sum.decided += outcome.decided;
      sum.contested += outcome.contested;
      sum.refused += outcome.refused;
      sum.recomputed_operators += outcome.recomputed_operators;
      sum.offloaded += outcome.offloaded;
    }
  };
  ResidencyPlan recompute(live);
  run_pass(passes, "plan recomputation", [&] {
    ask(recompute, live,
        [](const AnyPolicy& policy, const PolicyContext& asked, ResidencyPlan& plan) {
          const auto* p = std::get_if<std::unique_ptr<ResidencyPolicy>>(&policy);
          if (p != nullptr) (*p)->plan_recompute(asked, plan);
        });
    return 0;
  });
  ProgramOrder unrepeated;
  Liveness repeated_live;
  const bool repeats = !recompute.groups().empty();
  if (repeats) {
    unrepeated = std::exchange(result.order, run_pass(passes, "insert recomputation", [&] {
                                 return insert_recomputation(graph, result.order, live, recompute);
                               }));
    repeated_live =
        run_pass(passes, "liveness again", [&] { return analyze_liveness(graph, result.order); });
  }
  const Liveness& final_live = repeats ? repeated_live : live;
  ResidencyPlan movement(final_live);
  const std::vector<GapId> lost =
      carry_offloads({graph, repeats ? unrepeated : result.order, live, recompute},
                     {result.order, final_live}, movement);
  for (GapId gap : lost) {
    ++recompute.outcomes()[movers[gap]].refused;
    --recompute.outcomes()[movers[gap]].decided;
  }
  add_outcomes(recompute);
  run_pass(passes, "plan movement", [&] {
    ask(movement, final_live,
        [](const AnyPolicy& policy, const PolicyContext& c, ResidencyPlan& plan) {
          const auto* residency = std::get_if<std::unique_ptr<ResidencyPolicy>>(&policy);
          if (residency != nullptr) (*residency)->plan_movement(c, plan);
          const auto* rewrite = std::get_if<std::unique_ptr<TrainingRewrite>>(&policy);
          if (rewrite != nullptr) (*rewrite)->plan_movement(c, plan);
        });
    return 0;
  });
  add_outcomes(movement);

  result.program = run_pass(passes, "lower", [&] {
    return lower(graph, result.order, final_live, movement.decisions(), libraries_of(scenario),
                 movement.throttles());
  });
  const std::vector<std::string> problems = run_pass(
      passes, "verify", [&] { return verify(graph, plain, result.order, result.program); });
  if (!problems.empty()) {
    throw InternalError(
        fmt::format("the program of '{}' is wrong: {}", scenario.name, fmt::join(problems, "; ")));
  }
  result.saved = saved_tensors(graph, result.order, final_live, movement.decisions());
  for (const AnyPolicy& policy : scenario.policies) {
    if (const auto* p = std::get_if<std::unique_ptr<EvictionPolicy>>(&policy)) {
      result.eviction = p->get();
    }
  }
  if (result.eviction != nullptr && result.eviction->looks_at_addresses() &&
      scenario.allocator == AllocatorKind::kIdeal) {
    throw UserError({}, "allocator",
                    fmt::format("the eviction heuristic '{}' looks at addresses, and 'ideal' has "
                                "none; use torch or bfc",
                                result.eviction->name()));
  }
  if (scenario.allocator == AllocatorKind::kPacked) {
    if (result.eviction != nullptr) {
      throw UserError({}, "allocator",
                      "'packed' plans all addresses ahead of the run, but the eviction policy "
                      "decides during it; use torch or ideal");
    }
    result.placement = run_pass(passes, "pack", [&] { return place_program(result.program); });
  }
  return result;
}

}  // namespace tidemark
