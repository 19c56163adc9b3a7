#include "policies/rewrite/backward_update.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "policies/rewrite/gradient_completion.hpp"

namespace tidemark {
namespace backward_update_detail {
namespace {

// The place of an update in backward.
struct Place {
  std::size_t after = 0;  // index of the operator that it follows
  std::size_t turn = 0;   // among the updates behind one operator: the order of AccumulateGrad
  std::size_t update = 0;
};

// By gradient: the first operator of AccumulateGrad in `part` that copies it; invalid if none does.
IdVector<StorageId, OperatorId> gradient_copies(const TrainingGraph& graph,
                                                const std::vector<OperatorId>& part) {
  IdVector<StorageId, OperatorId> copies(graph.storages.size());
  for (const OperatorId id : part) {
    if (graph.operators[id].part != OperatorPart::kCopyGradient) continue;
    for (const Touch& touch : graph.touches_of(id)) {
      OperatorId& copy = copies[touch.storage];
      if (touch.access == Access::kCreate && !copy.valid()) copy = id;
    }
  }
  return copies;
}

// AccumulateGrad nodes run one after another when the node before them has returned; a copy is a
// part of its own AccumulateGrad, and so comes behind the hooks of those before.
std::vector<Place> places_of(const TrainingGraph& graph, const std::vector<OperatorId>& part,
                             const std::vector<TensorUpdate>& updates) {
  std::vector<StorageId> gradients;
  gradients.reserve(updates.size());
  for (const TensorUpdate& update : updates)
    gradients.push_back(update.tensor->gradient);
  const std::vector<std::size_t> completed = gradient_completions(graph, part, gradients);
  IdVector<ParameterId, std::size_t> turn(graph.parameters.size(), 0);
  for (std::size_t i = 0; i < graph.trained.size(); ++i)
    turn[graph.trained[i]] = i;
  std::vector<Place> places;
  for (std::size_t i = 0; i < updates.size(); ++i) {
    const ParameterId parameter = updates[i].tensor->parameter;
    places.push_back(
        {.after = completed[i], .turn = parameter.valid() ? turn[parameter] : i, .update = i});
  }
  std::stable_sort(places.begin(), places.end(),
                   [](const Place& a, const Place& b) { return a.turn < b.turn; });
  const auto copies = [&](std::size_t at) {
    return graph.operators[part[at]].part == OperatorPart::kCopyGradient;
  };
  const IdVector<StorageId, OperatorId> copied = gradient_copies(graph, part);
  for (std::size_t i = 0; i < places.size(); ++i) {
    const OperatorId copy = copied[gradients[places[i].update]];
    std::size_t& after = places[i].after;
    const NodeId node = graph.operators[part[after]].node;
    while (after > 0 && copies(after) && part[after] != copy &&
           graph.operators[part[after - 1]].node == node)
      --after;
    if (i == 0 || !node.valid()) continue;
    const std::size_t before = places[i - 1].after;
    if (graph.operators[part[before]].node == node) after = std::max(after, before);
  }
  std::stable_sort(places.begin(), places.end(),
                   [](const Place& a, const Place& b) { return a.after < b.after; });
  return places;
}

// Nothing keeps a gradient behind its update any more; the hook holds it, and the tensor that it
// was copied from, until the update is over.
void free_gradients(TrainingGraph& graph, const std::vector<TensorUpdate>& updates,
                    const std::vector<OperatorId>& part) {
  IdVector<StorageId, char> freed(graph.storages.size(), 0);
  IdVector<OperatorId, char> zero_grad(graph.operators.size(), 0);
  for (const OperatorId id : graph.part(PartKind::kZeroGrad))
    zero_grad[id] = 1;
  for (const TensorUpdate& update : updates) {
    graph.storages[update.tensor->gradient].persistent = false;
    freed[update.tensor->gradient] = 1;
  }
  std::erase_if(graph.holds, [&](const Hold& hold) {
    return freed[hold.storage] != 0 && zero_grad[hold.until] != 0;
  });
  if (!graph.has_frames) return;
  const IdVector<StorageId, OperatorId> copied = gradient_copies(graph, part);
  for (const TensorUpdate& update : updates) {
    const OperatorId until = update.step.back();
    graph.holds.push_back({update.tensor->gradient, {}, until, HoldKind::kSaved});
    const OperatorId copy = copied[update.tensor->gradient];
    if (!copy.valid()) continue;
    for (const Touch& touch : graph.touches_of(copy)) {
      if (touch.access == Access::kRead && !graph.storages[touch.storage].persistent)
        graph.holds.push_back({touch.storage, {}, until, HoldKind::kSaved});
    }
  }
}

std::vector<OperatorId> with_updates(const std::vector<OperatorId>& part,
                                     const std::vector<Place>& places,
                                     const std::vector<TensorUpdate>& updates, bool creates_state) {
  std::vector<OperatorId> result;
  auto next = places.begin();
  for (std::size_t at = 0; at < part.size(); ++at) {
    result.push_back(part[at]);
    for (; next != places.end() && next->after == at; ++next) {
      const TensorUpdate& update = updates[next->update];
      if (creates_state) result.insert(result.end(), update.first.begin(), update.first.end());
      result.insert(result.end(), update.step.begin(), update.step.end());
    }
  }
  return result;
}

}  // namespace
}  // namespace backward_update_detail

void update_in_backward(TrainingGraph& graph, std::vector<TensorUpdate> updates) {
  std::erase_if(updates, [](const TensorUpdate& update) { return update.step.empty(); });
  if (updates.empty()) return;
  const std::vector<OperatorId> part = graph.part(PartKind::kBackward);
  bool creates_state = false;
  for (const TensorUpdate& update : updates) {
    creates_state = creates_state || !update.first.empty();
    for (const std::vector<OperatorId>* operators : {&update.first, &update.step}) {
      for (const OperatorId id : *operators)
        graph.operators[id].phase = Phase::kBackward;
    }
  }
  const std::vector<backward_update_detail::Place> places =
      backward_update_detail::places_of(graph, part, updates);
  backward_update_detail::free_gradients(graph, updates, part);
  graph.part(PartKind::kBackward) =
      backward_update_detail::with_updates(part, places, updates, false);
  if (!creates_state) return;
  graph.part(PartKind::kBackwardFirst) =
      backward_update_detail::with_updates(part, places, updates, true);
}

}  // namespace tidemark
