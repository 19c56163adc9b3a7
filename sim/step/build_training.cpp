#include "sim/step/build_training.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "graph/autodiff/differentiate.hpp"
#include "graph/autodiff/evaluate.hpp"
#include "graph/core/errors.hpp"
#include "graph/operators/generation/cache_operators.hpp"
#include "graph/rewrite/detach_segments.hpp"
#include "graph/rewrite/memory_format.hpp"
#include "graph/rewrite/merge_turns.hpp"
#include "graph/rewrite/unroll_recurrence.hpp"
#include "policies/adapt/turn_gradients.hpp"
#include "policies/loss/megatron_loss.hpp"
#include "policies/rewrite/pipeline.hpp"
#include "policies/solver/step_costs.hpp"
#include "sim/engine/cost_table.hpp"
#include "sim/step/build_stages.hpp"
#include "sim/step/flat_parts.hpp"
#include "sim/step/model_trial.hpp"
#include "sim/step/step_device.hpp"
#include "sim/step/training_rewrites.hpp"
#include "sim/step/training_warnings.hpp"

namespace tidemark {
namespace build_training_detail {
namespace {

// Throws UserError for a model that has no key-value cache.
void check_generates(const Graph& graph) {
  const bool generates = std::any_of(graph.nodes.begin(), graph.nodes.end(), [](const Node& node) {
    return node.family == &next_token_family();
  });
  if (generates) return;
  throw UserError({}, "training.mode",
                  fmt::format("'{}' generates no text with a key-value cache; decoders do: gpt, "
                              "llama and their relatives, as presets or by their config.json",
                              graph.name));
}

Graph build_forward(const StepSpec& spec) {
  ModelOptions options = spec.training.model;
  const PrecisionRules& precision = rules_of(spec.training.precision);
  options.dtype = precision.model;
  options.fused_norms = training_system(spec) == TrainingSystem::kMegatron;
  options.keeps_narrow_logits = precision.model != DType::kFloat32 && !precision.master_weights;
  for (const ForwardRewrite* rewrite : policies_of<ForwardRewrite>(spec)) {
    if (!precision.autocast) continue;
    options.dtype = rewrite->model_dtype(*precision.autocast).value_or(options.dtype);
  }
  options.dtype = gathered_type(spec).value_or(options.dtype);
  Graph graph = spec.source.forward(options);
  if (options.generation) check_generates(graph);
  if (spec.training.mode == StepMode::kTrain && graph.trainable_parameter_count() == Elements(0)) {
    throw UserError({}, "model",
                    fmt::format("'{}' has no parameters, so there is nothing to train; add a layer "
                                "with weights, such as a linear one",
                                graph.name));
  }
  return graph;
}

// Throws UserError for a model that shares tensors with turns that are not there.
void check_unshared(const Graph& graph) {
  for (const LocalVariable& local : graph.locals) {
    if (local.shared_as.empty()) continue;
    throw UserError({}, "model.shared",
                    fmt::format("{} is shared by the turns of a step, and this one has none: leave "
                                "shared out, or write training.turns",
                                quoted_excerpt(local.shared_as)));
  }
}

// Rewrites apply by stage and within it by name, whatever order they are listed in: masks come
// before the rounding of quantisation-aware training.
template <class Rewrite>
std::vector<const Rewrite*> by_stage(std::vector<const Rewrite*> rewrites) {
  std::stable_sort(rewrites.begin(), rewrites.end(), [](const Rewrite* a, const Rewrite* b) {
    if (a->stage() != b->stage()) return a->stage() < b->stage();
    return a->name() < b->name();
  });
  return rewrites;
}

void check_forward(const Graph& graph) {
  check_invariants(graph);
}

TrainingGraph differentiated(const StepSpec& spec, const Graph& graph,
                             std::vector<PassTime>& passes) {
  return run_pass(
      passes, "differentiate",
      [&] { return differentiate(graph, *spec.training.framework, differentiate_options(spec)); },
      [](const TrainingGraph& made) { check_invariants(made); });
}

TrainingGraph train_model(const StepSpec& spec, const Graph& graph, std::vector<PassTime>& passes) {
  TrainingGraph result = differentiated(spec, graph, passes);
  rewrite_training(spec, RewriteScope::kChunk, result, passes);
  rewrite_training(spec, RewriteScope::kRank, result, passes);
  return result;
}

// The forward rewrites of a step, in the order in which they apply, and the model on its way
// through them.
class ForwardRewrites {
 public:
  ForwardRewrites(const StepSpec& spec, TrainedModel& model)
      : spec_(spec),
        model_(model),
        fp8_(spec.training.fp8),
        context_(rewrite_context(spec)),
        megatron_loss_(spec.training.loss_of == TrainingSystem::kMegatron) {
    const TrainingOptions& training = spec.training;
    rewrites_ = policies_of<ForwardRewrite>(spec);
    for (std::size_t i = 0; i < rewrites_.size(); ++i) {
      if (rewrites_[i]->next() != nullptr) rewrites_.push_back(rewrites_[i]->next());
    }
    if (const std::optional<DType> low = rules_of(training.precision).autocast) {
      autocast_.emplace(*low, training.autocast_cache, *training.framework);
      rewrites_.push_back(&*autocast_);
    }
    if (rules_of(training.precision).fp8) rewrites_.push_back(&fp8_);
    if (training.loss_of.value_or(context_.system) == TrainingSystem::kMegatron)
      rewrites_.push_back(&megatron_loss_);
    rewrites_ = by_stage(std::move(rewrites_));
  }
  ForwardRewrites(const ForwardRewrites&) = delete;
  ForwardRewrites& operator=(const ForwardRewrites&) = delete;

  Graph apply(Graph graph) {
    bool counted = false;
    for (std::size_t i = 0; i < rewrites_.size(); ++i) {
      if (!counted && rewrites_[i]->stage() >= ForwardStage::kExpert)
        counted = count_parameters(graph);
      graph = run_pass(
          model_.passes, rewrites_[i]->name(), [&] { return applied(i, graph); }, check_forward);
    }
    if (!counted) count_parameters(graph);
    return evaluated(std::move(graph));
  }

 private:
  // Counts the parameters of the whole model, before ranks divide them.
  bool count_parameters(const Graph& graph) {
    model_.parameter_count = graph.parameter_count();
    model_.trainable_parameter_count = graph.trainable_parameter_count();
    return true;
  }

  // Tries steps of models that rewrite `i` may choose.
  class Trial final : public ModelTrial {
   public:
    Trial(const ForwardRewrites& all, std::size_t i) : all_(all), i_(i) {}
    [[nodiscard]] Bytes capacity() const override {
      const ForwardRewrite& rewrite = *all_.rewrites_[i_];
      if (!rewrite.looks_at_capacity()) {
        throw InternalError(fmt::format(
            "'{}' asks for the capacity, but says that it does not look at it", rewrite.name()));
      }
      return all_.spec_.device.hbm.capacity - process_overhead(all_.spec_);
    }
    [[nodiscard]] Bytes live_peak(const Graph& graph) const override {
      Graph tried = graph;
      for (std::size_t j = i_ + 1; j < all_.rewrites_.size(); ++j)
        tried = all_.rewrites_[j]->apply(tried, all_.context_);
      std::vector<PassTime> untimed;
      return tidemark::live_peak(
          all_.spec_, train_model(all_.spec_, all_.evaluated(std::move(tried)), untimed));
    }
    void note(std::string sentence) override {
      all_.model_.warnings.push_back(std::move(sentence));
    }

   private:
    const ForwardRewrites& all_;
    std::size_t i_;
  };

  [[nodiscard]] Graph applied(std::size_t i, const Graph& graph) const {
    Trial trial(*this, i);
    RewriteContext context = context_;
    context.trial = &trial;
    return rewrites_[i]->apply(graph, context);
  }

  [[nodiscard]] Graph evaluated(Graph graph) const {
    if (spec_.training.mode == StepMode::kTrain) return graph;
    return run_pass(
        model_.passes, "evaluate",
        [&] { return evaluation_graph(std::move(graph), spec_.training.evaluates_loss); },
        check_forward);
  }

  const StepSpec& spec_;
  TrainedModel& model_;
  std::optional<Autocast> autocast_;
  Fp8Products fp8_;
  RewriteContext context_;
  MegatronLoss megatron_loss_;
  std::vector<const ForwardRewrite*> rewrites_;
};

// Freezes what gets no gradient because reentrant checkpoints take in nothing that requires one.
Graph without_lost_gradients(const StepSpec& spec, Graph graph, TrainedModel& model) {
  std::vector<BlockRange> segments;
  if (!spec.may_detach) return graph;
  for (const ResidencyPolicy* policy : policies_of<ResidencyPolicy>(spec)) {
    const std::vector<BlockRange> own = policy->reentrant_segments(graph.blocks);
    segments.insert(segments.end(), own.begin(), own.end());
  }
  std::optional<Graph> detached =
      run_pass(model.passes, "detach_segments", [&] { return detach_segments(graph, segments); });
  if (!detached) return graph;
  model.detached = model.enters_without_gradient = true;
  check_forward(*detached);
  return std::move(*detached);
}

// Returns the forward graph with everything that is decided before it is differentiated.
Graph rewritten_model(const StepSpec& spec, TrainedModel& model) {
  Graph graph = run_pass(
      model.passes, "model", [&] { return build_forward(spec); }, check_forward);
  for (std::string& remark : graph.remarks)
    model.warnings.push_back(std::move(remark));
  graph.remarks.clear();
  if (spec.training.framework->unrolls_recurrence) {
    graph = run_pass(
        model.passes, "unroll_recurrence", [&] { return unroll_recurrence(graph); }, check_forward);
  }
  if (spec.training.channels_last) {
    graph = run_pass(
        model.passes, "channels_last", [&] { return in_channels_last(graph); }, check_forward);
  }
  graph = ForwardRewrites(spec, model).apply(std::move(graph));
  return spec.training.mode == StepMode::kTrain
             ? without_lost_gradients(spec, std::move(graph), model)
             : graph;
}

// Whether .grad is made once in a step and no rank reduces or shards it.
bool makes_gradients_once(const StepSpec& spec) {
  const TrainingOptions& training = spec.training;
  return training.accumulate == 1 && training.zero_grad == ZeroGrad::kNone &&
         training.framework->holds && spec.mesh.ranks() == 1;
}

void sum_roles(TrainedModel& model) {
  for (const Storage& storage : model.training.storages) {
    if (!storage.persistent && !storage.initial) continue;
    if (is_parameter(storage.role)) model.parameters += storage.bytes;
    if (storage.role == Role::kBuffer) model.buffers += storage.bytes;
    if (storage.role == Role::kInput) model.inputs += storage.bytes;
    if (storage.role == Role::kGradient) model.gradients += storage.bytes;
    if (storage.role == Role::kOptimizerState) model.optimizer_state += storage.bytes;
  }
}

}  // namespace
}  // namespace build_training_detail

TrainingSystem training_system(const StepSpec& spec) {
  if (spec.mesh.ranks() == 1) return TrainingSystem::kTorch;
  std::optional<TrainingSystem> found;
  for (const AnyPolicy& policy : spec.policies) {
    const auto* rewrite = std::get_if<std::unique_ptr<TrainingRewrite>>(&policy);
    const std::optional<TrainingSystem> system = policy_of(policy).system();
    if (system && rewrite != nullptr && (*rewrite)->reduces_gradients()) return *system;
    if (!found) found = system;
  }
  if (found) return *found;
  const bool main_gradients = rules_of(spec.training.precision).master_weights &&
                              spec.training.gradient_dtype == DType::kFloat32;
  return main_gradients ? TrainingSystem::kMegatron : TrainingSystem::kTorch;
}

bool limit_searches(StepSpec& spec, const SearchLimits& limits) {
  bool limited = false;
  for (AnyPolicy& policy : spec.policies)
    limited = policy_of(policy).limit_search(limits) || limited;
  return limited;
}

RewriteContext rewrite_context(const StepSpec& spec) {
  return {.mesh = spec.mesh,
          .request = spec.mesh_request,
          .device = &spec.device,
          .framework = spec.training.framework,
          .precision = &rules_of(spec.training.precision),
          .model = &spec.training.model,
          .computes_loss = spec.training.mode == StepMode::kTrain || spec.training.evaluates_loss,
          .system = training_system(spec)};
}

DifferentiateOptions differentiate_options(const StepSpec& spec) {
  return {.hold_output = spec.training.hold_output,
          .held_until = spec.training.held_until,
          .gradient_dtype = spec.training.gradient_dtype,
          .evaluates = spec.training.mode == StepMode::kForward,
          .takes_saved_gradients = build_training_detail::makes_gradients_once(spec),
          .boundary = nullptr};
}

void sum_figures(TrainedModel& model) {
  build_training_detail::sum_roles(model);
  const TrainingGraph& t = model.training;
  Flops backward;
  for (const StepPart& part : t.parts.all()) {
    if (part.kind == PartKind::kForward) model.forward_flops += t.model_flops_of(part.operators);
    const bool once = part.kind == PartKind::kBackward || part.kind == PartKind::kBackwardWeight;
    if (once) backward += t.model_flops_of(part.operators);
  }
  model.step_flops = (model.forward_flops + backward) * static_cast<double>(t.micro_batches);
}

namespace build_training_detail {
namespace {

// Returns the step of several turns, each rewritten with its own optimizer.
TrainedModel build_turns(const StepSpec& spec) {
  TrainedModel model;
  std::vector<TrainingGraph> turns;
  for (const Turn& turn : spec.turns) {
    const Graph graph = rewritten_model(*turn.step, model);
    TrainingGraph& made = turns.emplace_back(differentiated(*turn.step, graph, model.passes));
    choose_updates(made, turn.train);
    warn_of_training(*turn.step, graph, made, model);
  }
  relate_gradients(turns, spec.training.zero_grad);
  for (std::string& warning : turn_warnings(turns))
    model.warnings.push_back(std::move(warning));
  for (std::size_t i = 0; i < turns.size(); ++i) {
    const StepSpec& step = *spec.turns[i].step;
    rewrite_training(step, RewriteScope::kChunk, turns[i], model.passes);
    std::erase_if(turns[i].trained,
                  [&](ParameterId id) { return turns[i].parameters[id].updated_elsewhere; });
    rewrite_training(step, RewriteScope::kRank, turns[i], model.passes);
  }
  model.training = run_pass(
      model.passes, "merge_turns", [&] { return merge_turns(std::move(turns)); },
      [](const TrainingGraph& made) { check_invariants(made); });
  model.parameter_count = parameter_elements(model.training.parameters);
  model.trainable_parameter_count = trained_elements(model.training.parameters);
  std::sort(model.warnings.begin(), model.warnings.end());
  model.warnings.erase(std::unique(model.warnings.begin(), model.warnings.end()),
                       model.warnings.end());
  sum_figures(model);
  return model;
}

}  // namespace
}  // namespace build_training_detail

TrainedModel build_training(const StepSpec& spec) {
  if (!spec.turns.empty()) return build_training_detail::build_turns(spec);
  TrainedModel model;
  if (spec.source.step) {
    model.training = run_pass(model.passes, "cost graph", [&] { return spec.source.step(); });
  } else {
    const Graph graph = build_training_detail::rewritten_model(spec, model);
    build_training_detail::check_unshared(graph);
    const PipelineOptions* pipeline = pipeline_of(spec);
    if (pipeline != nullptr && spec.training.model.generation) {
      throw UserError({}, "policies.pipeline",
                      "stages of training.mode: generate are not simulated; tensor_parallel cuts "
                      "the model among GPUs as well");
    }
    if (pipeline != nullptr) return build_stages(spec, *pipeline, graph, std::move(model));
    model.training = build_training_detail::train_model(spec, graph, model.passes);
    warn_of_training(spec, graph, model.training, model);
  }
  warn_of_flat_parts(spec, model.training, model.warnings);
  sum_figures(model);
  return model;
}

CostGraph cost_graph_of(const StepSpec& spec, const TrainingGraph& graph) {
  const CostTable costs = price(graph, CostModel(spec.device));
  return step_costs(graph, micro_batch_of(graph), costs.device, false, device_of(spec).framework)
      .graph;
}

}  // namespace tidemark
