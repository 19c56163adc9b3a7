#include <algorithm>

#include "policies/rewrite/optimizer_step.hpp"

namespace tidemark {

namespace matrix_step_detail {
namespace {

void add_touches(const OptimizerSlot& slot, const OptimizerTensors& tensors, Access access,
                 std::vector<Touch>& touches) {
  for (const OptimizerTensor tensor : tensors) {
    if (slot.of(tensor).valid()) touches.push_back({slot.of(tensor), access});
  }
}

// Returns the tensors of the optimizer that a kernel touches, and those that earlier kernels have
// made.
std::vector<Touch> touches_of(const MatrixKernel& kernel, const OptimizerSlot& slot,
                              const std::vector<StorageId>& made) {
  std::vector<Touch> touches;
  add_touches(slot, kernel.mutates, Access::kMutate, touches);
  add_touches(slot, kernel.reads, Access::kRead, touches);
  // A refresh needs state alone, and runs without the others where it is not its turn.
  for (const StorageId earlier : kernel.refreshes ? std::vector<StorageId>() : made)
    touches.push_back({earlier, Access::kRead});
  const bool updates = std::find(kernel.mutates.begin(), kernel.mutates.end(),
                                 OptimizerTensor::kWeights) != kernel.mutates.end();
  if (updates && slot.of(OptimizerTensor::kParameter).valid())
    touches.push_back({slot.of(OptimizerTensor::kParameter), Access::kOverwrite});
  return touches;
}

}  // namespace
}  // namespace matrix_step_detail

// Adds the kernels of one matrix. A variable is replaced when the next matrix has made its own:
//
//   orthogonal 0   |=========|
//   orthogonal 1        |----|=========|
void OptimizerStep::add_matrix(OptimizerSlot& slot, std::vector<StorageId>& variables) {
  const bool converts =
      precision_.master_weights && !slot.of(OptimizerTensor::kConvertedGradient).valid();
  std::vector<MatrixKernel> kernels;
  spec_.kind->add_matrix_kernels(
      spec_, {.shape = slot.trained->shape, .type = slot.weights, .converts_gradient = converts},
      kernels);
  std::vector<StorageId> made;
  for (const MatrixKernel& kernel : kernels) {
    std::vector<Touch> touches = matrix_step_detail::touches_of(kernel, slot, made);
    if (kernel.temporary > Bytes(0)) {
      touches.push_back(
          {add_storage(slot, "temporary", kernel.temporary, Role::kTemporary), Access::kCreate});
    }
    if (kernel.makes > Bytes(0)) {
      made.push_back(add_storage(slot, kernel.name, kernel.makes, Role::kTemporary));
      touches.push_back({made.back(), Access::kCreate});
    }
    const bool once = kernel.refreshes && spec_.refresh > 1;
    const PartKind part = once ? PartKind::kOptimizerFirst : PartKind::kOptimizer;
    const OperatorId before = graph_.part(part).empty() ? OperatorId() : graph_.part(part).back();
    const OperatorId id = add_operator(kernel.name, slot.trained->layer, touches, kernel.workspace,
                                       kernel.work, part);
    if (kernel.makes == Bytes(0)) continue;
    if (made.size() <= variables.size()) {
      hold_variable(variables[made.size() - 1], before, id);
      variables[made.size() - 1] = made.back();
    } else {
      variables.push_back(made.back());
    }
  }
}

// Bases are refreshed in the first step, whose peak shows what a refresh takes, and then every
// `refresh` steps, which later steps leave out unless that is 1.
void OptimizerStep::add_matrices() {
  std::vector<StorageId> variables;
  for (OptimizerSlot& slot : slots_)
    add_matrix(slot, variables);
}

}  // namespace tidemark
