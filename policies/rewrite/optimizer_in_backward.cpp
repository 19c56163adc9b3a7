// The policy `optimizer_in_backward`: one optimizer per parameter, run by a hook on its gradient.
#include <fmt/format.h>

#include "graph/core/errors.hpp"
#include "policies/rewrite/entries.hpp"

namespace tidemark {
namespace optimizer_in_backward_detail {
namespace {

[[noreturn]] void refuse(std::string_view other, std::string_view reason) {
  throw UserError({}, "policies.optimizer_in_backward",
                  fmt::format("does not go with {}: {}", other, reason));
}

// Whether backward itself makes the gradient of each tensor that is updated.
bool completes_gradients(const TrainingGraph& graph) {
  IdVector<StorageId, char> written(graph.storages.size(), 0);
  for (const OperatorId id : graph.part(PartKind::kBackward)) {
    for (const Touch& touch : graph.touches_of(id)) {
      if (touch.access != Access::kRead) written[touch.storage] = 1;
    }
  }
  for (const UpdatedTensor& tensor : graph.updates) {
    if (written[tensor.gradient] == 0) return false;
  }
  return true;
}

void check_goes_together(const TrainingGraph& graph, const RewriteContext& context) {
  if (graph.micro_batches > 1) {
    refuse(fmt::format("training.accumulate: {}", graph.micro_batches),
           "each gradient is used up before the next micro-batch could add to it; write "
           "accumulate: 1");
  }
  if (graph.gradients_persist) {
    refuse("training.zero_grad: zero",
           "the hook drops each gradient behind its update; write zero_grad: none");
  }
  if (context.mesh.size(MeshDimension::kPipeline) > 1) {
    refuse("pipeline", "the micro-batches of a schedule accumulate; leave one of them out");
  }
  bool owns_parts = false;
  for (const UpdatedTensor& tensor : graph.updates) {
    owns_parts = owns_parts || !tensor.parameter.valid() ||
                 tensor.weights != graph.parameters[tensor.parameter].storage;
  }
  if (!completes_gradients(graph)) {
    refuse("zero and distributed_optimizer",
           "their optimizer works on flat parts of all gradients behind backward; use fsdp");
  }
  if (context.mesh.replicas() > 1 && !owns_parts) {
    refuse("data_parallel, zero and distributed_optimizer",
           "hooks run before ranks that each hold the whole model have reduced a bucket of "
           "gradients; use fsdp");
  }
}

class OptimizerInBackward final : public TrainingRewrite {
 public:
  [[nodiscard]] std::string_view name() const override { return "optimizer_in_backward"; }
  [[nodiscard]] bool acts_in_evaluation(bool /*computes_loss*/) const override { return false; }
  [[nodiscard]] TrainingStage stage() const override { return TrainingStage::kPlace; }
  // It decides nothing once the step is there.
  [[nodiscard]] bool decides_by_structure() const override { return true; }
  void apply(TrainingGraph& graph, const RewriteContext& context) const override {
    if (graph.trained.empty()) return;
    check_goes_together(graph, context);
    graph.updates_in_backward = true;
  }
};

}  // namespace
}  // namespace optimizer_in_backward_detail

const PolicyEntry& optimizer_in_backward_entry() {
  static constexpr PolicyEntry kEntry{
      .name = "optimizer_in_backward",
      .kind = "training rewrite",
      .summary =
          "each parameter is updated in backward as soon as its gradient is complete, and the "
          "gradient is freed; the peak falls only where it does not lie at the start of backward",
      .source =
          "PyTorch register_post_accumulate_grad_hook, torchtune optimizer_in_bwd; LOMO (Lv et al. "
          "2023)",
      .decode = [](const Decoder& d, const RewriteContext& /*context*/) -> AnyPolicy {
        d.finish();
        return std::make_unique<optimizer_in_backward_detail::OptimizerInBackward>();
      }};
  return kEntry;
}

}  // namespace tidemark
