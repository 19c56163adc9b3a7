// Small graphs of one operator, and the bytes that their training graph keeps and allocates: the
// figures that were probed on PyTorch (reference/torch-op-rules). Arguments are parameters here, so
// that they cost nothing and their gradients are kept without a copy.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/autodiff/differentiate.hpp"
#include "graph/models/builder.hpp"

namespace tidemark::probe {

using Sizes = std::vector<std::int64_t>;

inline TrainingGraph train(const Graph& graph, std::string_view framework) {
  return differentiate(graph, *find_framework(framework), {});
}

inline TrainingGraph train_on_cpu(ModelBuilder& builder, TensorId output) {
  builder.set_output(output);
  return train(builder.finish(), "torch-1.13-cpu");
}

// Activations that autograd keeps, by role; an output that is kept counts.
inline std::int64_t saved_bytes(const TrainingGraph& graph) {
  std::int64_t sum = 0;
  for (const Storage& storage : graph.storages) {
    if (storage.role == Role::kSavedActivation) sum += storage.bytes.count;
  }
  return sum;
}

// "layer: name" is not unique in a graph, so these are sorted pairs of a storage's name and bytes.
inline std::vector<std::pair<std::string, std::int64_t>> saved_by_name(const TrainingGraph& graph) {
  std::vector<std::pair<std::string, std::int64_t>> saved;
  for (const Storage& storage : graph.storages) {
    if (storage.role == Role::kSavedActivation) {
      saved.emplace_back(storage.name, storage.bytes.count);
    }
  }
  std::sort(saved.begin(), saved.end());
  return saved;
}

// Returns the bytes of the allocations that a part of the step creates, in order; the root gradient
// left out.
inline Sizes allocations(const TrainingGraph& graph, const std::vector<OperatorId>& part) {
  Sizes sizes;
  for (OperatorId id : part) {
    if (graph.operators[id].part == OperatorPart::kRootGradient) continue;
    for (const Touch& touch : graph.touches_of(id)) {
      if (touch.access == Access::kCreate)
        sizes.push_back(graph.storages[touch.storage].bytes.count);
    }
  }
  return sizes;
}

inline double flops(const TrainingGraph& graph, const std::vector<OperatorId>& part) {
  return graph.model_flops_of(part).count;
}

// Returns the live bytes while the busiest kernel of forward and backward runs: storages live from
// their creation to their last touch or the end of a hold.
inline std::int64_t peak_bytes(const TrainingGraph& graph, bool with_workspace = false) {
  std::vector<OperatorId> order = graph.part(PartKind::kForward);
  order.insert(order.end(), graph.part(PartKind::kBackward).begin(),
               graph.part(PartKind::kBackward).end());
  const std::size_t never = order.size();
  IdVector<OperatorId, std::size_t> position(graph.operators.size(), never);
  for (std::size_t i = 0; i < order.size(); ++i)
    position[order[i]] = i;
  IdVector<StorageId, std::size_t> first(graph.storages.size(), never);
  IdVector<StorageId, std::size_t> last(graph.storages.size(), 0);
  for (std::size_t i = 0; i < order.size(); ++i) {
    for (const Touch& touch : graph.touches_of(order[i])) {
      if (touch.access == Access::kCreate) first[touch.storage] = i;
      last[touch.storage] = i;
    }
  }
  for (const Hold& hold : graph.holds) {
    last[hold.storage] = std::max(last[hold.storage], position[hold.until]);
  }
  std::vector<std::int64_t> change(order.size() + 2, 0);
  for (StorageId id : ids_of(graph.storages)) {
    const Storage& storage = graph.storages[id];
    if (storage.initial) {
      change[0] += storage.bytes.count;
    } else if (first[id] != never) {
      change[first[id]] += storage.bytes.count;
      if (!storage.persistent) change[std::min(last[id], never) + 1] -= storage.bytes.count;
    }
  }
  std::int64_t live = 0;
  std::int64_t peak = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    live += change[i];
    const std::int64_t workspace = graph.operators[order[i]].workspace.count;
    peak = std::max(peak, live + (with_workspace ? workspace : 0));
  }
  return peak;
}

// Returns the problem that a shape rule reports, or "" when it accepts.
template <class F>
std::string problem_of(F&& build) {
  try {
    std::forward<F>(build)();
  } catch (const std::exception& error) {
    return error.what();
  }
  return {};
}

}  // namespace tidemark::probe
