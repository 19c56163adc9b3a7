#include "policies/rewrite/accumulate.hpp"

#include <array>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "graph/core/errors.hpp"

namespace tidemark {
namespace {

// The operator by which differentiate() makes .grad from a tensor that others hold or that has
// another type. Where .grad exists that tensor is added to it directly.
constexpr std::string_view kCopyGradient = "copy_gradient";

class AccumulatingBackward {
 public:
  explicit AccumulatingBackward(TrainingGraph& graph)
      : graph_(graph),
        parameter_(graph.storages.size(), kNoParameter),
        copy_(graph.operators.size()),
        holds_(graph.holds) {}
  void build();

 private:
  static constexpr std::size_t kNoParameter = static_cast<std::size_t>(-1);
  struct Completion {
    std::size_t at = kNoParameter;  // index in backward after which the gradient is added
    OperatorId by;                  // the last operator that changes it
    StorageId fresh;                // where it is made; invalid when another tensor is added
  };

  [[nodiscard]] bool is_gradient(StorageId s) const {
    return parameter_.contains(s) && parameter_[s] != kNoParameter;
  }
  void find_completions();
  void choose_operators();
  [[nodiscard]] OperatorId clone(OperatorId id);
  [[nodiscard]] OperatorId add_accumulation(std::size_t parameter, StorageId source);
  void clone_holds();

  TrainingGraph& graph_;
  IdVector<StorageId, std::size_t> parameter_;  // whose gradient it is: index into trained
  std::vector<Completion> completion_;          // by parameter
  std::vector<char> is_cloned_;                 // by index in backward
  IdVector<OperatorId, OperatorId> copy_;       // of operators that exist twice
  std::vector<Hold> holds_;                     // as they were
};

// AccumulateGrad runs when the backward node that completes the gradient has returned: behind the
// last of its kernels.
void AccumulatingBackward::find_completions() {
  completion_.resize(graph_.trained.size());
  const std::vector<OperatorId>& backward = graph_.backward;
  for (std::size_t i = 0; i < graph_.trained.size(); ++i) {
    parameter_[graph_.trained[i].gradient] = i;
  }
  for (std::size_t at = 0; at < backward.size(); ++at) {
    for (const Touch& touch : graph_.touches_of(backward[at])) {
      if (touch.access == Access::kRead || !is_gradient(touch.storage)) continue;
      Completion& completion = completion_[parameter_[touch.storage]];
      completion.at = at;
      completion.by = backward[at];
    }
  }
  for (std::size_t i = 0; i < completion_.size(); ++i) {
    Completion& completion = completion_[i];
    const TrainedParameter& trained = graph_.trained[i];
    if (!completion.by.valid()) {
      throw InternalError(fmt::format("nothing in backward makes '{}.grad'", trained.name));
    }
    const Operator& last = graph_.operators[completion.by];
    if (last.name == kCopyGradient) continue;
    while (last.node.valid() && completion.at + 1 < backward.size() &&
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

// Operators that touch a gradient, and those that end the hold of one: a hold on a fresh tensor
// must end in an operator that runs only where the tensor exists.
void AccumulatingBackward::choose_operators() {
  IdVector<OperatorId, char> ends_hold(graph_.operators.size(), 0);
  for (const Hold& hold : holds_) {
    if (is_gradient(hold.storage)) ends_hold[hold.until] = 1;
  }
  is_cloned_.assign(graph_.backward.size(), 0);
  for (std::size_t at = 0; at < graph_.backward.size(); ++at) {
    const OperatorId id = graph_.backward[at];
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
    const Completion& completion = completion_[parameter_[touch.storage]];
    if (completion.fresh.valid()) {
      touch.storage = completion.fresh;
      continue;
    }
    // Only the copy touches this gradient: what it reads is added instead.
    for (const Touch& source : touches) {
      if (source.access == Access::kRead) {
        return add_accumulation(parameter_[touch.storage], source.storage);
      }
    }
    throw InternalError(graph_.describe(id) + " copies nothing into a gradient");
  }
  return graph_.add_operator(Operator(graph_.operators[id]), touches);
}

OperatorId AccumulatingBackward::add_accumulation(std::size_t parameter, StorageId source) {
  const TrainedParameter& trained = graph_.trained[parameter];
  const Completion& completion = completion_[parameter];
  if (is_gradient(source)) source = completion_[parameter_[source]].fresh;
  const Bytes gradient = graph_.storages[trained.gradient].bytes;
  Operator op{.name = "accumulate_gradient",
              .phase = Phase::kBackward,
              .node = graph_.operators[completion.by].node,
              .layer = trained.layer,
              .work = {.op_class = OperatorClass::kElementwise,
                       .dtype = trained.gradient_dtype,
                       .flops = Flops(static_cast<double>(trained.elements)),
                       .read = gradient + graph_.storages[source].bytes,
                       .written = gradient}};
  return graph_.add_operator(std::move(op), std::array{Touch{source, Access::kRead},
                                                       Touch{trained.gradient, Access::kMutate}});
}

// Operators that exist twice release what they hold in either form.
void AccumulatingBackward::clone_holds() {
  for (Hold hold : holds_) {
    if (!copy_[hold.until].valid()) continue;
    hold.until = copy_[hold.until];
    if (hold.since.valid() && copy_[hold.since].valid()) hold.since = copy_[hold.since];
    if (is_gradient(hold.storage)) hold.storage = completion_[parameter_[hold.storage]].fresh;
    if (hold.storage.valid()) graph_.holds.push_back(hold);
  }
}

void AccumulatingBackward::build() {
  find_completions();
  choose_operators();
  std::vector<std::vector<std::size_t>> completed(graph_.backward.size());
  for (std::size_t i = 0; i < completion_.size(); ++i) {
    if (completion_[i].fresh.valid()) completed[completion_[i].at].push_back(i);
  }
  std::vector<OperatorId> accumulate;
  for (std::size_t at = 0; at < graph_.backward.size(); ++at) {
    const OperatorId id = graph_.backward[at];
    if (is_cloned_[at] != 0) copy_[id] = clone(id);
    accumulate.push_back(is_cloned_[at] != 0 ? copy_[id] : id);
    for (std::size_t parameter : completed[at]) {
      accumulate.push_back(add_accumulation(parameter, completion_[parameter].fresh));
    }
  }
  clone_holds();
  graph_.backward_accumulate = std::move(accumulate);
}

// loss = criterion(out, y); (loss / k).backward(). The quotient and its gradient are scalars that
// live as long as the call of backward and as one node; a micro-batch drops its loss at its end.
class LossDivision {
 public:
  explicit LossDivision(TrainingGraph& graph) : graph_(graph) {}

  void build() {
    if (graph_.forward.empty() || graph_.backward.empty() || graph_.end_of_step.empty()) return;
    Hold* variable = loss_variable();
    if (variable == nullptr) return;
    const StorageId loss = variable->storage;
    const OperatorId last = graph_.backward.back();
    const StorageId root = graph_.touches_of(graph_.backward.front()).front().storage;
    const Bytes bytes = graph_.storages[root].bytes;
    if (bytes > Bytes(size_of(DType::kFloat64))) return;  // backward starts from the output itself
    const StorageId quotient = add_scalar("divided_loss", Role::kTemporary, bytes);
    const StorageId gradient = add_scalar("loss_gradient", Role::kActivationGradient, bytes);
    variable->until = last;
    redirect(root, gradient);
    graph_.forward.push_back(add_operator("divide_loss", Phase::kForward, loss, quotient));
    graph_.backward.insert(graph_.backward.begin() + 1,
                           add_operator("divide_loss.backward", Phase::kBackward, root, gradient));
    graph_.holds.push_back({quotient, graph_.forward.back(), last, HoldKind::kLocal});
  }

 private:
  // What differentiate() keeps from the last forward operator to the end of the step.
  Hold* loss_variable() {
    for (Hold& hold : graph_.holds) {
      if (hold.since == graph_.forward.back() && hold.until == graph_.end_of_step.back()) {
        return &hold;
      }
    }
    return nullptr;
  }

  StorageId add_scalar(std::string_view name, Role role, Bytes bytes) {
    return graph_.storages.push_back({.bytes = bytes, .role = role, .name = std::string(name)});
  }

  // A part of the loss's node.
  OperatorId add_operator(std::string_view name, Phase phase, StorageId from, StorageId to) {
    const Operator& loss = graph_.operators[graph_.forward.back()];
    const Bytes bytes = graph_.storages[to].bytes;
    Operator op{.name = std::string(name),
                .phase = phase,
                .node = loss.node,
                .layer = loss.layer,
                .work = {.op_class = OperatorClass::kElementwise, .read = bytes, .written = bytes}};
    return graph_.add_operator(std::move(op),
                               std::array{Touch{from, Access::kRead}, Touch{to, Access::kCreate}});
  }

  // The nodes behind the division take its gradient; the caller of backward keeps the root's.
  void redirect(StorageId root, StorageId gradient) {
    for (std::size_t i = 1; i < graph_.backward.size(); ++i) {
      const Operator& op = graph_.operators[graph_.backward[i]];
      for (std::uint32_t at = 0; at < op.touch_count; ++at) {
        StorageId& storage = graph_.touches[op.first_touch + at].storage;
        if (storage == root) storage = gradient;
      }
    }
    for (Hold& hold : graph_.holds) {
      if (hold.storage == root && hold.kind == HoldKind::kSaved) hold.storage = gradient;
    }
  }

  TrainingGraph& graph_;
};

// zero_grad(set_to_none=False): one fill per parameter, and nothing drops .grad any more.
void keep_gradients(TrainingGraph& graph) {
  graph.gradients_persist = true;
  IdVector<OperatorId, char> is_zero_grad(graph.operators.size(), 0);
  for (OperatorId id : graph.zero_grad)
    is_zero_grad[id] = 1;
  IdVector<StorageId, char> is_gradient(graph.storages.size(), 0);
  for (const TrainedParameter& trained : graph.trained)
    is_gradient[trained.gradient] = 1;
  std::erase_if(graph.holds, [&](const Hold& hold) {
    return is_zero_grad[hold.until] != 0 && is_gradient[hold.storage] != 0;
  });
  for (const TrainedParameter& trained : graph.trained) {
    Operator op{.name = "zero_grad",
                .phase = Phase::kForward,
                .layer = trained.layer,
                .work = {.op_class = OperatorClass::kMemset,
                         .dtype = trained.gradient_dtype,
                         .written = graph.storages[trained.gradient].bytes}};
    graph.zero_grad.push_back(
        graph.add_operator(std::move(op), std::array{Touch{trained.gradient, Access::kOverwrite}}));
  }
}

}  // namespace

ZeroGrad decode_zero_grad(const Decoder& training, const FrameworkRules& rules) {
  constexpr std::array<std::string_view, 2> kWords = {"none", "zero"};
  const std::string_view fallback = rules.zero_grad_drops ? kWords[0] : kWords[1];
  const std::string word = training.optional_word("zero_grad", kWords, fallback);
  return word == kWords[0] ? ZeroGrad::kNone : ZeroGrad::kZero;
}

void Accumulate::apply(TrainingGraph& graph) const {
  graph.micro_batches = micro_batches_;
  if (graph.trained.empty()) return;
  if (micro_batches_ > 1) LossDivision(graph).build();
  if (zero_grad_ == ZeroGrad::kZero) keep_gradients(graph);
  if (micro_batches_ > 1 || graph.gradients_persist) AccumulatingBackward(graph).build();
}

}  // namespace tidemark
