#include "sim/step/build_training.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "graph/autodiff/differentiate.hpp"
#include "graph/autodiff/evaluate.hpp"
#include "graph/core/errors.hpp"
#include "graph/rewrite/unroll_recurrence.hpp"
#include "policies/parallel/tensor_gradients.hpp"
#include "policies/rewrite/accumulate.hpp"
#include "policies/rewrite/data_parallel.hpp"
#include "policies/solver/step_costs.hpp"
#include "sim/engine/cost_table.hpp"
#include "sim/step/step_device.hpp"

namespace tidemark {
namespace build_training_detail {
namespace {

Graph build_forward(const StepSpec& spec) {
  ModelOptions options = spec.training.model;
  options.dtype = rules_of(spec.training.precision).model;
  for (const TrainingRewrite* rewrite : policies_of<TrainingRewrite>(spec))
    options.dtype = rewrite->compute_dtype().value_or(options.dtype);
  Graph graph = spec.source.forward(options);
  if (spec.training.mode == StepMode::kTrain && graph.trainable_parameter_count() == 0) {
    throw UserError({}, "model",
                    fmt::format("'{}' has no parameters, so there is nothing to train; add a layer "
                                "with weights, such as a linear one",
                                graph.name));
  }
  return graph;
}

// Rewrites apply by stage, whatever order they are listed in.
template <class Rewrite>
std::vector<const Rewrite*> by_stage(std::vector<const Rewrite*> rewrites) {
  std::stable_sort(rewrites.begin(), rewrites.end(),
                   [](const Rewrite* a, const Rewrite* b) { return a->stage() < b->stage(); });
  return rewrites;
}

void check_forward(const Graph& graph) {
  check_invariants(graph);
}

Graph rewrite_forward(const StepSpec& spec, Graph graph, std::vector<PassTime>& passes) {
  const TrainingOptions& training = spec.training;
  std::vector<const ForwardRewrite*> rewrites = policies_of<ForwardRewrite>(spec);
  std::optional<Autocast> autocast;
  if (const std::optional<DType> low = rules_of(training.precision).autocast) {
    autocast.emplace(*low, training.autocast_cache, *training.framework);
    rewrites.push_back(&*autocast);
  }
  const RewriteContext context = rewrite_context(spec);
  for (const ForwardRewrite* rewrite : by_stage(std::move(rewrites))) {
    graph = run_pass(
        passes, rewrite->name(), [&] { return rewrite->apply(graph, context); }, check_forward);
  }
  return graph;
}

void rewrite_training(const StepSpec& spec, TrainingGraph& graph, std::vector<PassTime>& passes) {
  const TrainingOptions& training = spec.training;
  const PrecisionRules& precision = rules_of(training.precision);
  std::vector<const TrainingRewrite*> rewrites = policies_of<TrainingRewrite>(spec);
  const DataParallel data_parallel;
  const bool reduces = std::any_of(rewrites.begin(), rewrites.end(),
                                   [](const TrainingRewrite* r) { return r->reduces_gradients(); });
  if (!reduces) rewrites.push_back(&data_parallel);
  const TensorGradients tensor_gradients;
  rewrites.push_back(&tensor_gradients);
  const Accumulate accumulate(static_cast<int>(training.accumulate), training.zero_grad);
  const Optimizer optimizer(training.optimizer, precision, *training.framework);
  const Tf32 tf32;
  if (training.mode == StepMode::kTrain) {
    rewrites.insert(rewrites.end(), {&accumulate, &optimizer});
  } else {
    graph.micro_batches = static_cast<int>(training.accumulate);
  }
  if (precision.tf32) rewrites.push_back(&tf32);
  const RewriteContext context = rewrite_context(spec);
  for (const TrainingRewrite* rewrite : by_stage(std::move(rewrites))) {
    run_pass(
        passes, rewrite->name(), [&] { rewrite->apply(graph, context); },
        [&] { check_invariants(graph); });
  }
}

TrainingGraph train_model(const StepSpec& spec, std::vector<PassTime>& passes) {
  const TrainingOptions& training = spec.training;
  Graph graph = run_pass(
      passes, "model", [&] { return build_forward(spec); }, check_forward);
  if (training.framework->unrolls_recurrence) {
    graph = run_pass(
        passes, "unroll_recurrence", [&] { return unroll_recurrence(graph); }, check_forward);
  }
  graph = rewrite_forward(spec, std::move(graph), passes);
  const bool evaluates = training.mode == StepMode::kForward;
  if (evaluates) {
    graph = run_pass(
        passes, "evaluate",
        [&] { return evaluation_graph(std::move(graph), training.evaluates_loss); }, check_forward);
  }
  TrainingGraph result = run_pass(passes, "differentiate", [&] {
    return differentiate(graph, *training.framework,
                         {.hold_output = training.hold_output,
                          .gradient_dtype = training.gradient_dtype,
                          .evaluates = evaluates});
  });
  rewrite_training(spec, result, passes);
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

}  // namespace
}  // namespace build_training_detail

RewriteContext rewrite_context(const StepSpec& spec) {
  return {.mesh = spec.mesh,
          .device = &spec.device,
          .framework = spec.training.framework,
          .precision = &rules_of(spec.training.precision)};
}

TrainedModel build_training(const StepSpec& spec) {
  TrainedModel model;
  if (spec.source.step) {
    model.training = run_pass(model.passes, "cost graph", [&] { return spec.source.step(); });
  } else {
    model.training = build_training_detail::train_model(spec, model.passes);
  }
  build_training_detail::sum_roles(model);
  const TrainingGraph& t = model.training;
  model.forward_flops = t.flops_of(t.part(PartKind::kForward));
  model.step_flops = (model.forward_flops + t.flops_of(t.part(PartKind::kBackward))) *
                     static_cast<double>(t.micro_batches);
  return model;
}

CostGraph cost_graph_of(const StepSpec& spec, const TrainingGraph& graph) {
  const CostTable costs = price(graph, CostModel(spec.device));
  return step_costs(graph, micro_batch_of(graph), costs.device, false, device_of(spec).framework)
      .graph;
}

}  // namespace tidemark
