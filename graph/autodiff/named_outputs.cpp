// Variables of the training loop and of the model's forward, and how long they name contents.

#include <algorithm>
#include <array>
#include <map>
#include <span>
#include <vector>

#include <fmt/format.h>

#include "graph/autodiff/gradient_tape.hpp"
#include "graph/core/errors.hpp"
#include "graph/operators/known_families.hpp"

namespace tidemark {

// A local variable holds the content of a tensor from the kernel that creates it.
void GradientTape::hold_content(TensorId tensor, OperatorId until) {
  if (created_by_.empty()) find_creators();
  const StorageId storage = graph_.tensors[tensor].storage;
  const OperatorId since = created_by_[storage];
  if (since.valid()) training_.holds.push_back({storage, since, until, HoldKind::kLocal});
}

// Finds, by storage, the first kernel of forward that creates it.
void GradientTape::find_creators() {
  created_by_.assign(training_.storages.size(), OperatorId());
  for (const OperatorId op : training_.part(PartKind::kForward)) {
    for (const Touch& touch : training_.touches_of(op)) {
      OperatorId& creator = created_by_[touch.storage];
      if (touch.access == Access::kCreate && !creator.valid()) creator = op;
    }
  }
}

// Returns what the graphs of outputs that the loss does not come from have saved: backward does not
// reach it.
std::vector<StorageId> GradientTape::saved_for_other_outputs() const {
  std::vector<StorageId> saved;
  if (graph_.other_outputs.empty()) return saved;
  IdVector<TensorId, char> wanted(graph_.tensors.size(), 0);
  for (TensorId output : graph_.other_outputs)
    wanted[output] = 1;
  for (std::size_t i = graph_.nodes.size(); i-- > 0;) {
    const NodeId id(i);
    const Node& node = graph_.nodes[id];
    const bool leads_there = std::any_of(node.outputs.begin(), node.outputs.end(),
                                         [&](TensorId out) { return wanted[out] != 0; });
    if (!leads_there) continue;
    for (TensorId in : node.inputs) {
      if (in.valid()) wanted[in] = 1;
    }
    if (reached_[id] != 0) continue;
    for (StorageId s : saved_[id].storages) {
      if (!training_.storages[s].persistent) saved.push_back(s);
    }
  }
  return saved;
}

// Returns what the training loop's variable names: the logits, or the fp32 copy of them on which
// the loss is taken. Throws UserError where the model makes no such copy.
TensorId GradientTape::returned_logits() const {
  if (options_.hold_output != HoldOutput::kFp32Logits) return graph_.logits;
  for (const Node& node : graph_.nodes) {
    const bool reads = !node.inputs.empty() && node.inputs[0] == graph_.logits;
    if (!reads || node.family != &cast_family() || node.outputs.empty()) continue;
    if (graph_.tensors[node.outputs[0]].dtype == DType::kFloat32) return node.outputs[0];
  }
  const DType dtype = graph_.tensors[graph_.logits].dtype;
  if (dtype == DType::kFloat32) return graph_.logits;
  throw UserError({}, "training.hold_output",
                  fmt::format("fp32 is the copy that logits.float() makes, and {} makes none: its "
                              "output is {}; write true, which holds the output",
                              graph_.name, name_of(dtype)));
}

// Returns the outputs that the training loop's variable names, whatever becomes of the loss.
std::vector<TensorId> GradientTape::named_outputs() const {
  std::vector<TensorId> named = graph_.other_outputs;
  const bool holds = options_.hold_output != HoldOutput::kNothing || options_.evaluates;
  if (graph_.logits.valid() && holds) named.push_back(returned_logits());
  for (const LocalVariable& local : graph_.locals) {
    if (local.returned && holds) named.push_back(local.tensor);
  }
  return named;
}

// Holds what the engine, the training loop and the model's forward name in variables.
void GradientTape::hold_variables(OperatorId end) {
  hold_root_gradients();
  hold_transfers();
  const OperatorId named_until = kept_from_.valid() ? kept_from_ : end;
  for (StorageId saved : saved_for_other_outputs())
    training_.holds.push_back({saved, OperatorId(), named_until, HoldKind::kSaved});
  for (TensorId output : named_outputs())
    hold_content(output, named_until);
  for (const auto& [gradient, since] : kept_gradients_) {
    training_.holds.push_back({gradient, since, named_until, HoldKind::kLocal});
    training_.leaves.push_back(gradient);
  }
  if (graph_.loss.valid()) hold_content(graph_.loss, named_until);
  const bool holds = options_.hold_output != HoldOutput::kNothing;
  if (graph_.logits.valid() && graph_.loss.valid() && !holds) {
    hold_content(graph_.logits, training_.part(PartKind::kForward).back());
  }
  for (const LocalVariable& local : graph_.locals) {
    if (local.only_in_evaluation && graph_.tensors[local.tensor].requires_grad) continue;
    if (local.leaf) {
      if (options_.evaluates) continue;
      training_.leaves.push_back(graph_.tensors[local.tensor].storage);
      hold_content(local.tensor, named_until);
      continue;
    }
    const OperatorId until = local.until.valid() ? forward_operator_[local.until] : end;
    if (local.shared_as.empty() && !local.until.valid()) {
      training_.module_state.push_back(graph_.tensors[local.tensor].storage);
    }
    if (until.valid()) hold_content(local.tensor, until);
  }
}

// Returns the operator of forward after which all these tensors are there; invalid if no kernel
// makes them.
OperatorId GradientTape::forward_until(std::span<const TensorId> made) const {
  OperatorId until;
  for (const NodeId id : ids_of(graph_.nodes)) {
    const std::vector<TensorId>& outputs = graph_.nodes[id].outputs;
    if (std::find_first_of(outputs.begin(), outputs.end(), made.begin(), made.end()) !=
        outputs.end()) {
      until = forward_operator_[id];
    }
  }
  return until;
}

// A loop's variables name the output and the loss until the next micro-batch has its own, and with
// them what is left of the graph: what backward does not reach, what contexts hold (ctx.tensors of
// a Python function), and leaves with their .grad. The next forward makes the same storages anew,
// so that the old contents are storages of their own from here on.
void GradientTape::keep_outputs() {
  if (!rules_.holds || options_.held_until != HeldUntil::kNextOutput) return;
  if (options_.boundary != nullptr) {
    throw UserError({}, "training.hold_output_until",
                    "next_output is a loop that runs the whole model, and a pipeline's schedule "
                    "keeps no outputs; leave it out");
  }
  std::vector<OperatorId>& part =
      training_.part(options_.evaluates ? PartKind::kForward : PartKind::kBackward);
  if (part.empty()) return;
  std::map<StorageId, OperatorId> kept;  // until when the next micro-batch runs beside it
  const std::vector<TensorId> outputs = named_outputs();
  const OperatorId returned = forward_until(outputs);
  for (TensorId output : outputs)
    kept.emplace(graph_.tensors[output].storage, returned);
  for (StorageId saved : saved_for_other_outputs())
    kept.emplace(saved, returned);
  if (graph_.loss.valid()) {
    const OperatorId new_loss = forward_until(std::array{graph_.loss});
    kept.emplace(graph_.tensors[graph_.loss].storage, new_loss);
    for (StorageId context : contexts_)
      kept.emplace(context, new_loss);
    for (const LocalVariable& local : graph_.locals) {
      if (local.leaf) kept.emplace(graph_.tensors[local.tensor].storage, new_loss);
    }
    for (const auto& [gradient, since] : kept_gradients_)
      kept.emplace(gradient, new_loss);
  }
  kept_from_ = part.back();
  std::vector<Touch> touches;
  for (const auto& [content, until] : kept) {
    Storage old = training_.storages[content];
    if (old.initial || old.persistent || !until.valid()) continue;
    old.name += ".kept";
    old.persistent = true;
    references_.push_back(0);
    touches.push_back({training_.storages.push_back(std::move(old)), Access::kCreate});
    training_.holds.push_back({touches.back().storage, OperatorId(), until, HoldKind::kLocal});
  }
  for (const StorageId context : contexts_)
    training_.holds.push_back({context, OperatorId(), kept_from_, HoldKind::kSaved});
  Operator op{.name = "keep_output",
              .part = OperatorPart::kKeepOutput,
              .phase = options_.evaluates ? Phase::kForward : Phase::kBackward};
  part.push_back(training_.add_operator(std::move(op), touches));
}

}  // namespace tidemark
