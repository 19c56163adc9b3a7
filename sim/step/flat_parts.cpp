#include "sim/step/flat_parts.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace tidemark {
namespace flat_parts_detail {
namespace {

// Whether a rank updates flat parts of matrices, so that their rows and columns are not known.
bool flattens_matrices(const TrainingGraph& graph) {
  return std::any_of(graph.updates.begin(), graph.updates.end(), [&](const UpdatedTensor& update) {
    if (update.shape.rank() >= 2) return false;
    // A flat tensor of many parameters belongs to none of them, and neither does padding.
    if (!update.parameter.valid()) return !update.padding;
    return graph.parameters[update.parameter].shape.rank() >= 2;
  });
}

}  // namespace
}  // namespace flat_parts_detail

void warn_of_flat_parts(const StepSpec& spec, const TrainingGraph& graph,
                        std::vector<std::string>& warnings) {
  const OptimizerAlgorithm& optimizer = *spec.training.optimizer.kind;
  if (optimizer.on_flat_parts.empty() || !flat_parts_detail::flattens_matrices(graph)) return;
  warnings.push_back(
      fmt::format("{} works on whole matrices, and a rank has flat parts of some: {}; fsdp: "
                  "{{version: 2}} shards by rows",
                  optimizer.name, optimizer.on_flat_parts));
}

}  // namespace tidemark
