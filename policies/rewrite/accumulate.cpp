#include "policies/rewrite/accumulate.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "graph/core/errors.hpp"

namespace tidemark {
namespace accumulate_detail {
namespace {

class AccumulatingBackward {
 public:
  // `existing`: the parameters whose .grad exists.
  AccumulatingBackward(TrainingGraph& graph, std::vector<ParameterId> existing)
      : graph_(graph),
        existing_(std::move(existing)),
        gradient_of_(graph.storages.size()),
        completion_(graph.parameters.size()),
        copy_(graph.operators.size()),
        holds_(graph.holds) {}
  // Returns the operators of the backward.
  std::vector<OperatorId> build();

 private:
  struct Completion {
    std::size_t at = 0;  // index in backward after which the gradient is added
    OperatorId by;       // the last operator that changes it
    StorageId fresh;     // tensor in which it is made; invalid when another tensor is added
  };

  [[nodiscard]] bool is_gradient(StorageId s) const {
    return gradient_of_.contains(s) && gradient_of_[s].valid();
  }
  void find_completions();
  void choose_operators();
  [[nodiscard]] OperatorId clone(OperatorId id);
  [[nodiscard]] OperatorId add_accumulation(ParameterId parameter, StorageId source);
  void clone_holds();

  TrainingGraph& graph_;
  std::vector<ParameterId> existing_;
  IdVector<StorageId, ParameterId> gradient_of_;  // invalid for other storages
  IdVector<ParameterId, Completion> completion_;
  std::vector<char> is_cloned_;            // by index in backward
  IdVector<OperatorId, OperatorId> copy_;  // copies of operators that exist twice
  std::vector<Hold> holds_;                // holds before the rewrite
};

// AccumulateGrad runs when the backward node that completes the gradient has returned: behind the
// last of its kernels, or later where the gradient passes nodes of views.
void AccumulatingBackward::find_completions() {
  const std::vector<OperatorId>& backward = graph_.part(PartKind::kBackward);
  for (ParameterId id : existing_)
    gradient_of_[graph_.parameters[id].gradient] = id;
  IdVector<OperatorId, std::size_t> place(graph_.operators.size(), 0);
  for (std::size_t at = 0; at < backward.size(); ++at) {
    place[backward[at]] = at;
    for (const Touch& touch : graph_.touches_of(backward[at])) {
      if (touch.access == Access::kRead || !is_gradient(touch.storage)) continue;
      Completion& completion = completion_[gradient_of_[touch.storage]];
      completion.at = at;
      completion.by = backward[at];
    }
  }
  for (ParameterId id : existing_) {
    Completion& completion = completion_[id];
    const Parameter& trained = graph_.parameters[id];
    if (!completion.by.valid()) {
      throw InternalError(fmt::format("nothing in backward makes '{}.grad'", trained.name));
    }
    const Operator& last = graph_.operators[completion.by];
    // The tensor that is otherwise copied into .grad is added to it directly where it exists.
    if (last.part == OperatorPart::kCopyGradient) continue;
    // A bias that is summed before other kernels of its node was added by an operator of its own.
    const Operator* const next = completion.at + 1 < backward.size()
                                     ? &graph_.operators[backward[completion.at + 1]]
                                     : nullptr;
    const bool alone = last.part == OperatorPart::kBiasGradient && next != nullptr &&
                       next->node == last.node && next->part != OperatorPart::kAddGradients;
    const std::size_t ready = place.contains(trained.ready_after) ? place[trained.ready_after] : 0;
    if (!alone) completion.at = std::max(completion.at, ready);
    while (!alone && ready < completion.at && last.node.valid() &&
           completion.at + 1 < backward.size() &&
           graph_.operators[backward[completion.at + 1]].node == last.node) {
      ++completion.at;
    }
    Storage fresh = graph_.storages[trained.gradient];
    fresh.role = Role::kActivationGradient;
    fresh.persistent = false;
    fresh.name = trained.name + ".new_grad";
    completion.fresh = graph_.storages.push_back(std::move(fresh));
  }
}

// Chooses the operators that touch a gradient, and those that end the hold of one: a hold on a
// fresh tensor must end in an operator that runs only where the tensor exists.
void AccumulatingBackward::choose_operators() {
  IdVector<OperatorId, char> ends_hold(graph_.operators.size(), 0);
  for (const Hold& hold : holds_) {
    if (is_gradient(hold.storage)) ends_hold[hold.until] = 1;
  }
  is_cloned_.assign(graph_.part(PartKind::kBackward).size(), 0);
  for (std::size_t at = 0; at < graph_.part(PartKind::kBackward).size(); ++at) {
    const OperatorId id = graph_.part(PartKind::kBackward)[at];
    bool touches = ends_hold[id] != 0;
    for (const Touch& touch : graph_.touches_of(id))
      touches |= is_gradient(touch.storage);
    is_cloned_[at] = touches ? 1 : 0;
  }
}

OperatorId AccumulatingBackward::clone(OperatorId id) {
  const std::span<const Touch> old = graph_.touches_of(id);
  std::vector<Touch> touches(old.begin(), old.end());
  for (Touch& touch : touches) {
    if (!is_gradient(touch.storage)) continue;
    const Completion& completion = completion_[gradient_of_[touch.storage]];
    if (completion.fresh.valid()) {
      touch.storage = completion.fresh;
      continue;
    }
    // Only the copy touches this gradient: its source is added instead.
    for (const Touch& source : touches) {
      if (source.access == Access::kRead) {
        return add_accumulation(gradient_of_[touch.storage], source.storage);
      }
    }
    throw InternalError(graph_.describe(id) + " copies nothing into a gradient");
  }
  return graph_.add_operator(Operator(graph_.operators[id]), touches);
}

OperatorId AccumulatingBackward::add_accumulation(ParameterId parameter, StorageId source) {
  const Parameter& trained = graph_.parameters[parameter];
  const Completion& completion = completion_[parameter];
  if (is_gradient(source)) source = completion_[gradient_of_[source]].fresh;
  const Bytes gradient = graph_.storages[trained.gradient].bytes;
  Operator op{.name = "accumulate_gradient",
              .part = OperatorPart::kAccumulateGradient,
              .phase = Phase::kBackward,
              .node = graph_.operators[completion.by].node,
              .layer = trained.layer,
              .work = {.op_class = OperatorClass::kElementwise,
                       .dtype = trained.gradient_dtype,
                       .flops = Flops(static_cast<double>(trained.elements.count)),
                       .read = gradient + graph_.storages[source].bytes,
                       .written = gradient}};
  return graph_.add_operator(std::move(op), std::array{Touch{source, Access::kRead},
                                                       Touch{trained.gradient, Access::kMutate}});
}

// Makes operators that exist twice release their holds in either form.
void AccumulatingBackward::clone_holds() {
  for (Hold hold : holds_) {
    if (!copy_[hold.until].valid()) continue;
    hold.until = copy_[hold.until];
    if (hold.since.valid() && copy_[hold.since].valid()) hold.since = copy_[hold.since];
    if (is_gradient(hold.storage)) hold.storage = completion_[gradient_of_[hold.storage]].fresh;
    if (hold.storage.valid()) graph_.holds.push_back(hold);
  }
}

std::vector<OperatorId> AccumulatingBackward::build() {
  find_completions();
  choose_operators();
  std::vector<std::vector<ParameterId>> completed(graph_.part(PartKind::kBackward).size());
  for (ParameterId id : existing_) {
    if (completion_[id].fresh.valid()) completed[completion_[id].at].push_back(id);
  }
  std::vector<OperatorId> accumulate;
  for (std::size_t at = 0; at < graph_.part(PartKind::kBackward).size(); ++at) {
    const OperatorId id = graph_.part(PartKind::kBackward)[at];
    if (is_cloned_[at] != 0) copy_[id] = clone(id);
    accumulate.push_back(is_cloned_[at] != 0 ? copy_[id] : id);
    for (ParameterId parameter : completed[at]) {
      accumulate.push_back(add_accumulation(parameter, completion_[parameter].fresh));
    }
  }
  clone_holds();
  return accumulate;
}

// (loss / k).backward(): the quotient lives until backward returns, the loss and the leaves of its
// graph until the micro-batch is over; the first gradient is that of the quotient.
void divide_loss(TrainingGraph& graph) {
  if (!graph.loss.valid() || graph.part(PartKind::kBackward).empty()) return;
  const OperatorId root = graph.part(PartKind::kBackward).front();
  const StorageId ones = graph.touches_of(root).front().storage;
  const Bytes bytes = graph.storages[ones].bytes;
  const auto scalar = [&](std::string_view name, Role role) {
    Storage storage{.bytes = bytes,
                    .dtype = graph.storages[ones].dtype,
                    .elements = graph.storages[ones].elements,
                    .role = role};
    storage.name = name;
    return graph.storages.push_back(std::move(storage));
  };
  const StorageId quotient = scalar("loss_per_micro_batch", Role::kTemporary);
  const StorageId gradient = scalar("loss_gradient", Role::kActivationGradient);
  for (OperatorId id : graph.part(PartKind::kBackward)) {
    const Operator& op = graph.operators[id];
    for (std::size_t t = op.first_touch; t < op.first_touch + op.touch_count; ++t) {
      Touch& touch = graph.touches[t];
      if (touch.storage == ones && touch.access == Access::kRead) touch.storage = gradient;
    }
  }
  const auto divide = [&](std::string_view name, Phase phase, StorageId from, StorageId to) {
    Operator op{.part = OperatorPart::kDivideLoss,
                .phase = phase,
                .work = {.op_class = OperatorClass::kElementwise,
                         .flops = Flops(1),
                         .read = bytes,
                         .written = bytes}};
    op.name = name;
    return graph.add_operator(std::move(op),
                              std::array{Touch{from, Access::kRead}, Touch{to, Access::kCreate}});
  };
  const OperatorId forward = divide("divide_loss", Phase::kForward, graph.loss, quotient);
  const OperatorId backward = divide("divide_loss.backward", Phase::kBackward, ones, gradient);
  graph.part(PartKind::kForward).push_back(forward);
  graph.part(PartKind::kBackward).insert(graph.part(PartKind::kBackward).begin() + 1, backward);
  // Variables of the micro-batch end before their contents that the loop keeps begin.
  const auto& backward_part = graph.part(PartKind::kBackward);
  const bool keeps = graph.operators[backward_part.back()].part == OperatorPart::kKeepOutput;
  const OperatorId last = backward_part[backward_part.size() - (keeps ? 2 : 1)];
  std::vector<Hold> replaced;
  for (Hold& hold : graph.holds) {
    const bool with_loss =
        hold.storage == graph.loss ||
        std::find(graph.leaves.begin(), graph.leaves.end(), hold.storage) != graph.leaves.end();
    if (with_loss && hold.kind == HoldKind::kLocal) hold.until = last;
    // The next micro-batch replaces what a module keeps, such as its normalised weight; that of the
    // last one lives to the end of the step.
    const bool of_module = std::find(graph.module_state.begin(), graph.module_state.end(),
                                     hold.storage) != graph.module_state.end();
    if (of_module && hold.kind == HoldKind::kLocal)
      replaced.push_back({hold.storage, hold.since, last, HoldKind::kLocal});
    if (hold.storage == ones && hold.kind == HoldKind::kSaved) hold.storage = gradient;
  }
  graph.holds.insert(graph.holds.end(), replaced.begin(), replaced.end());
  if (graph.has_frames) graph.holds.push_back({quotient, forward, last, HoldKind::kLocal});
}

// zero_grad(set_to_none=False): one fill per parameter, and nothing drops .grad any more.
void keep_gradients(TrainingGraph& graph) {
  graph.gradients_persist = true;
  IdVector<OperatorId, char> is_zero_grad(graph.operators.size(), 0);
  for (OperatorId id : graph.part(PartKind::kZeroGrad))
    is_zero_grad[id] = 1;
  IdVector<StorageId, char> is_gradient(graph.storages.size(), 0);
  for (ParameterId id : graph.trained)
    is_gradient[graph.parameters[id].gradient] = 1;
  std::erase_if(graph.holds, [&](const Hold& hold) {
    return is_zero_grad[hold.until] != 0 && is_gradient[hold.storage] != 0;
  });
  for (ParameterId id : graph.trained) {
    const Parameter& trained = graph.parameters[id];
    if (trained.updated_elsewhere) continue;
    Operator op{.name = "zero_grad",
                .part = OperatorPart::kZeroGrad,
                .phase = Phase::kForward,
                .layer = trained.layer,
                .work = {.op_class = OperatorClass::kMemset,
                         .dtype = trained.gradient_dtype,
                         .written = graph.storages[trained.gradient].bytes}};
    graph.part(PartKind::kZeroGrad)
        .push_back(graph.add_operator(std::move(op),
                                      std::array{Touch{trained.gradient, Access::kOverwrite}}));
  }
}

// Returns the parameters whose gradient exists at `least` such times.
std::vector<ParameterId> existing_before(const TrainingGraph& graph, GradientBefore least) {
  std::vector<ParameterId> existing;
  for (const ParameterId id : graph.trained) {
    if (graph.parameters[id].gradient_before >= least) existing.push_back(id);
  }
  return existing;
}

// Drops holds that end in an operator which no part has any more.
void drop_unscheduled_holds(TrainingGraph& graph) {
  IdVector<OperatorId, char> is_scheduled(graph.operators.size(), 0);
  for (const StepPart& part : graph.parts.all()) {
    for (const OperatorId id : part.operators)
      is_scheduled[id] = 1;
  }
  std::erase_if(graph.holds, [&](const Hold& hold) {
    return hold.until.valid() && is_scheduled[hold.until] == 0;
  });
}

// Gives the first backward of a turn the forms that it has in step 0 and in later steps, where some
// gradients exist already.
void choose_turn_forms(TrainingGraph& graph) {
  const auto form = [&](GradientBefore least) {
    return AccumulatingBackward(graph, existing_before(graph, least)).build();
  };
  const std::vector<ParameterId> always = existing_before(graph, GradientBefore::kAlways);
  const std::vector<ParameterId> later = existing_before(graph, GradientBefore::kAfterFirstStep);
  if (later.empty()) return;
  std::vector<OperatorId> first;
  if (always != later) first = form(GradientBefore::kAlways);
  std::vector<OperatorId> others = form(GradientBefore::kAfterFirstStep);
  graph.part(PartKind::kBackwardFirst) = std::move(first);
  graph.part(PartKind::kBackward) = std::move(others);
  drop_unscheduled_holds(graph);
}

}  // namespace
}  // namespace accumulate_detail

ZeroGrad decode_zero_grad(const Decoder& training, const FrameworkRules& rules) {
  constexpr std::array<std::string_view, 2> kWords = {"none", "zero"};
  const std::string_view fallback = rules.zero_grad_drops ? kWords[0] : kWords[1];
  const std::string word = training.optional_word("zero_grad", kWords, fallback);
  return word == kWords[0] ? ZeroGrad::kNone : ZeroGrad::kZero;
}

void Accumulate::apply(TrainingGraph& graph, const RewriteContext& /*context*/) const {
  graph.micro_batches = micro_batches_;
  if (graph.trained.empty()) return;
  if (micro_batches_ > 1) accumulate_detail::divide_loss(graph);
  if (zero_grad_ == ZeroGrad::kZero) accumulate_detail::keep_gradients(graph);
  if (micro_batches_ > 1 || graph.gradients_persist) {
    graph.part(PartKind::kBackwardAccumulate) =
        accumulate_detail::AccumulatingBackward(graph, graph.trained).build();
  }
  accumulate_detail::choose_turn_forms(graph);
}

}  // namespace tidemark
