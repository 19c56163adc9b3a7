#include "sim/step/training_rewrites.hpp"

#include <algorithm>
#include <utility>

#include "policies/compile/compiled_step.hpp"
#include "policies/data/loader.hpp"
#include "policies/parallel/late_weight_gradients.hpp"
#include "policies/parallel/tensor_gradients.hpp"
#include "policies/rewrite/accumulate.hpp"
#include "policies/rewrite/clip_gradients.hpp"
#include "policies/rewrite/data_parallel.hpp"
#include "policies/shard/megatron_step.hpp"

namespace tidemark {
namespace training_rewrites_detail {
namespace {

// Accumulation and sharding are those of a module; the optimizer has the parameters of all.
RewriteScope scope_of(TrainingStage stage) {
  return stage <= TrainingStage::kPartition ? RewriteScope::kChunk : RewriteScope::kRank;
}

}  // namespace
}  // namespace training_rewrites_detail

void rewrite_training(const StepSpec& spec, RewriteScope scope, TrainingGraph& graph,
                      std::vector<PassTime>& passes, int piece) {
  const TrainingOptions& training = spec.training;
  const PrecisionRules& precision = rules_of(training.precision);
  std::vector<const TrainingRewrite*> rewrites = policies_of<TrainingRewrite>(spec);
  for (std::size_t i = 0; i < rewrites.size(); ++i) {
    if (rewrites[i]->next() != nullptr) rewrites.push_back(rewrites[i]->next());
  }
  const DataParallel data_parallel;
  const bool reduces = std::any_of(rewrites.begin(), rewrites.end(),
                                   [](const TrainingRewrite* r) { return r->reduces_gradients(); });
  const MegatronDataParallel megatron;
  if (!reduces && training_system(spec) == TrainingSystem::kMegatron) {
    rewrites.push_back(&megatron);
  } else if (!reduces) {
    rewrites.push_back(&data_parallel);
  }
  const TensorGradients tensor_gradients;
  rewrites.push_back(&tensor_gradients);
  const Accumulate accumulate(static_cast<int>(training.accumulate), training.zero_grad);
  const Optimizer optimizer(training.optimizer, precision, *training.framework);
  const Tf32 tf32;
  const CompiledStep compiled(training.compile.value_or(CompileScope::kModel));
  if (training.compile) rewrites.push_back(&compiled);
  const LateWeightGradients late_weight_gradients;
  rewrites.push_back(&late_weight_gradients);
  const Loader loader(training.loader.value_or(LoaderSpec{}));
  if (training.loader) rewrites.push_back(&loader);
  const LossScale loss_scale(training.loss_scale.value_or(LossScaleOptions{}));
  const ClipGradients clip;
  const Ema ema(training.ema.value_or(EmaOptions{}));
  if (training.mode == StepMode::kTrain) {
    rewrites.insert(rewrites.end(), {&accumulate, &optimizer});
    if (training.loss_scale) rewrites.push_back(&loss_scale);
    if (training.clip_grad_norm) rewrites.push_back(&clip);
    if (training.ema) rewrites.push_back(&ema);
  } else {
    graph.micro_batches = static_cast<int>(training.accumulate);
  }
  if (precision.tf32) rewrites.push_back(&tf32);
  std::erase_if(rewrites, [&](const TrainingRewrite* rewrite) {
    return training_rewrites_detail::scope_of(rewrite->stage()) != scope;
  });
  // Rewrites apply by stage, whatever order they are listed in.
  std::stable_sort(
      rewrites.begin(), rewrites.end(),
      [](const TrainingRewrite* a, const TrainingRewrite* b) { return a->stage() < b->stage(); });
  RewriteContext context = rewrite_context(spec);
  context.piece = piece;
  for (const TrainingRewrite* rewrite : rewrites) {
    run_pass(
        passes, rewrite->name(), [&] { rewrite->apply(graph, context); },
        [&] { check_invariants(graph); });
  }
}

}  // namespace tidemark
