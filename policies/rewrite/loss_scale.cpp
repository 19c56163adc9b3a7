#include "policies/rewrite/loss_scale.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "graph/core/errors.hpp"
#include "policies/rewrite/all_gradients.hpp"
#include "policies/rewrite/optimizer_kernels.hpp"
#include "policies/rewrite/precision.hpp"

namespace tidemark {
namespace loss_scale_detail {
namespace {

constexpr std::array<std::string_view, 3> kKinds{"none", "static", "dynamic"};
constexpr int kMostSkipped = 8;
constexpr Bytes kNumber{4};  // scale, growth tracker, found_inf, the inverse scale
constexpr Bytes kDouble{8};  // torch computes the inverse in fp64

class Scaler {
 public:
  Scaler(TrainingGraph& graph, const LossScaleOptions& options)
      : graph_(graph), options_(options) {}
  void build(bool multi_tensor);

 private:
  [[nodiscard]] StorageId add_number(const char* name, Bytes bytes, Role role);
  [[nodiscard]] std::vector<Touch> with_scale(std::vector<Touch> touches) const;
  [[nodiscard]] OperatorId add_product(const char* name, Phase phase, StorageId from, StorageId to);
  void scale_loss();
  void unscale(bool multi_tensor);
  void update_scale();

  TrainingGraph& graph_;
  const LossScaleOptions& options_;
  StorageId scale_;    // invalid for a fixed factor
  StorageId tracker_;  // good steps in a row
  StorageId found_inf_;
};

StorageId Scaler::add_number(const char* name, Bytes bytes, Role role) {
  const bool kept = role == Role::kOptimizerState;
  return graph_.storages.push_back({.bytes = bytes,
                                    .role = role,
                                    .initial = kept,
                                    .persistent = kept,
                                    .name = std::string("grad_scaler.") + name});
}

std::vector<Touch> Scaler::with_scale(std::vector<Touch> touches) const {
  if (scale_.valid()) touches.push_back({scale_, Access::kRead});
  return touches;
}

OperatorId Scaler::add_product(const char* name, Phase phase, StorageId from, StorageId to) {
  const Bytes bytes = graph_.storages[to].bytes;
  Operator op{.name = name,
              .part = OperatorPart::kDivideLoss,
              .phase = phase,
              .work = {.op_class = OperatorClass::kElementwise,
                       .flops = Flops(1),
                       .read = bytes * 2,
                       .written = bytes}};
  return graph_.add_operator(std::move(op),
                             with_scale({{from, Access::kRead}, {to, Access::kCreate}}));
}

// Whether a part of the step computes the loss.
bool computes_loss(const TrainingGraph& graph, const StepPart& part) {
  const auto creates = [&](const Touch& touch) {
    return touch.storage == graph.loss && touch.access == Access::kCreate;
  };
  return std::any_of(part.operators.begin(), part.operators.end(), [&](OperatorId id) {
    const std::span<const Touch> touches = graph.touches_of(id);
    return std::any_of(touches.begin(), touches.end(), creates);
  });
}

// Lets operators read `to` in place of `from`.
void read_instead(TrainingGraph& graph, const std::vector<OperatorId>& operators, StorageId from,
                  StorageId to) {
  for (const OperatorId id : operators) {
    const Operator& op = graph.operators[id];
    for (std::size_t t = op.first_touch; t < op.first_touch + op.touch_count; ++t) {
      Touch& touch = graph.touches[t];
      if (touch.storage == from && touch.access == Access::kRead) touch.storage = to;
    }
  }
}

// The product is a variable until backward returns; the gradient of the loss is that of the product
// times the scale.
void Scaler::scale_loss() {
  if (!graph_.loss.valid()) return;
  const Bytes bytes = graph_.storages[graph_.loss].bytes;
  const StorageId scaled = add_number("scaled_loss", bytes, Role::kTemporary);
  const StorageId gradient = add_number("loss_gradient", bytes, Role::kActivationGradient);
  const OperatorId forward = add_product("scale_loss", Phase::kForward, graph_.loss, scaled);
  std::vector<std::vector<OperatorId>*> with_loss;
  OperatorId backward;
  for (const StepPart& part : graph_.parts.all()) {
    if (is_forward(part.kind) && computes_loss(graph_, part))
      with_loss.push_back(&graph_.part(part.kind, part.chunk));
    if (!is_backward(part.kind)) continue;
    std::vector<OperatorId>& operators = graph_.part(part.kind, part.chunk);
    const auto root = std::find_if(operators.begin(), operators.end(), [&](OperatorId id) {
      return graph_.operators[id].part == OperatorPart::kRootGradient;
    });
    if (root == operators.end()) continue;
    const StorageId ones = graph_.touches_of(*root).front().storage;
    read_instead(graph_, operators, ones, gradient);
    if (!backward.valid())
      backward = add_product("scale_loss.backward", Phase::kBackward, ones, gradient);
    operators.insert(root + 1, backward);
    if (graph_.has_frames) graph_.holds.push_back({scaled, {}, operators.back(), HoldKind::kSaved});
    for (Hold& hold : graph_.holds) {
      if (hold.storage == ones && hold.kind == HoldKind::kSaved) hold.storage = gradient;
    }
  }
  for (std::vector<OperatorId>* part : with_loss)
    part->push_back(forward);
}

// _amp_foreach_non_finite_check_and_unscale_ reads and writes every gradient once; then the host
// reads whether one of them was infinite.
void Scaler::unscale(bool multi_tensor) {
  const AllGradients gradients = all_gradients(graph_);
  double elements = 0;
  for (const Elements each : gradients.elements)
    elements += static_cast<double>(each.count);
  std::vector<Touch> touches;
  for (const StorageId storage : gradients.storages)
    touches.push_back({storage, Access::kMutate});
  if (options_.dynamic) {
    found_inf_ = add_number("found_inf", kNumber, Role::kTemporary);
    const StorageId inverse = add_number("inverse_scale", kNumber, Role::kTemporary);
    const StorageId exact = add_number("inverse_scale.fp64", kDouble, Role::kTemporary);
    add_before_optimizer(
        graph_, "grad_scaler.inverse_scale",
        with_scale(
            {{exact, Access::kCreate}, {inverse, Access::kCreate}, {found_inf_, Access::kCreate}}),
        {.op_class = OperatorClass::kElementwise,
         .read = kNumber,
         .written = kNumber,
         .launches = 4});
    touches.push_back({inverse, Access::kRead});
    touches.push_back({found_inf_, Access::kMutate});
  }
  Work work{.op_class = OperatorClass::kOptimizer, .flops = Flops(2 * elements)};
  work.read = work.written = gradients.bytes;
  work.launches = multi_tensor ? foreach_launches(gradients.elements, 1)
                               : static_cast<int>(gradients.elements.size());
  add_before_optimizer(graph_, "grad_scaler.unscale", touches, work);
  if (!options_.dynamic) return;
  const OperatorId sync = add_before_optimizer(
      graph_, "grad_scaler.found_inf", {{found_inf_, Access::kRead}},
      {.op_class = OperatorClass::kElementwise, .read = kNumber, .written = kNumber});
  graph_.operators[sync].blocks_host = true;
}

void Scaler::update_scale() {
  Operator op{
      .name = "grad_scaler.update",
      .part = OperatorPart::kUpdate,
      .phase = Phase::kOptimizer,
      .work = {
          .op_class = OperatorClass::kElementwise, .read = kNumber * 3, .written = kNumber * 2}};
  const std::array touches{Touch{scale_, Access::kMutate}, Touch{tracker_, Access::kMutate},
                           Touch{found_inf_, Access::kRead}};
  graph_.part(PartKind::kAfterOptimizer).push_back(graph_.add_operator(std::move(op), touches));
}

void Scaler::build(bool multi_tensor) {
  if (options_.dynamic) {
    scale_ = add_number("scale", kNumber, Role::kOptimizerState);
    tracker_ = add_number("growth_tracker", kNumber, Role::kOptimizerState);
    graph_.skipped_updates = options_.skipped;
  }
  scale_loss();
  unscale(multi_tensor);
  if (options_.dynamic) update_scale();
}

}  // namespace
}  // namespace loss_scale_detail

std::optional<LossScaleOptions> decode_loss_scale(const Decoder& training) {
  const Decoder mapping = training.optional_child("loss_scale");
  const bool has_keys = mapping.value().is_mapping();
  const std::string word =
      has_keys ? mapping.optional_word("kind", loss_scale_detail::kKinds, "dynamic")
               : training.optional_word("loss_scale", loss_scale_detail::kKinds, "none");
  LossScaleOptions options{.dynamic = word == "dynamic"};
  if (has_keys) {
    if (options.dynamic) {
      options.skipped = mapping.optional<int>("skipped", options.skipped,
                                              between(0, loss_scale_detail::kMostSkipped));
    }
    mapping.finish();
  }
  if (word == "none") return std::nullopt;
  return options;
}

void LossScale::apply(TrainingGraph& graph, const RewriteContext& context) const {
  if (graph.trained.empty()) return;
  check_gradients_wait(graph, "training.loss_scale",
                       "a step is skipped when any gradient is infinite");
  // Adapters in fp32 over a base in fp16 have gradients that it unscales.
  const bool narrow = std::any_of(
      graph.updates.begin(), graph.updates.end(),
      [](const UpdatedTensor& tensor) { return tensor.gradient_dtype == DType::kFloat16; });
  if (options_.dynamic && narrow && context.precision != nullptr &&
      !context.precision->master_weights && context.precision->model == DType::kFloat16) {
    throw UserError({}, "training.loss_scale",
                    "GradScaler does not unscale fp16 gradients, which training.precision fp16 "
                    "makes; write precision: fp16_autocast or fp16_mixed, or loss_scale: static");
  }
  const bool multi_tensor = context.framework == nullptr || context.framework->multi_tensor_kernels;
  loss_scale_detail::Scaler(graph, options_).build(multi_tensor);
}

}  // namespace tidemark
