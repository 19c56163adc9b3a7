#include <algorithm>

#include "policies/rewrite/newton_schulz.hpp"
#include "policies/rewrite/optimizer_step.hpp"

namespace tidemark {

// Adds for each matrix: the momentum and the look-ahead, which overwrites the gradient; Newton and
// Schulz's products, whose result is a variable of the loop in bf16; the update.
void OptimizerStep::add_muon() {
  StorageId last_variable;
  for (const OptimizerSlot& slot : slots_) {
    const Shape& shape = slot.trained->shape;
    const LayerId layer = slot.trained->layer;
    const Bytes bytes = tidemark::bytes_of(slot.weights, slot.trained->elements);
    const bool converts =
        precision_.master_weights && !slot.of(OptimizerTensor::kConvertedGradient).valid();
    Work momentum{.op_class = OperatorClass::kOptimizer, .dtype = slot.weights, .launches = 2};
    momentum.flops = Flops(6 * static_cast<double>(slot.trained->elements.count));
    momentum.read = bytes * 4;
    momentum.written = bytes * 2;
    const OperatorId before = graph_.part(PartKind::kOptimizer).empty()
                                  ? OperatorId()
                                  : graph_.part(PartKind::kOptimizer).back();
    const std::vector<Touch> averaged = {{slot.of(OptimizerTensor::kGradient), Access::kMutate},
                                         {slot.of(OptimizerTensor::kFirstMoment), Access::kMutate}};
    add_operator("momentum", layer, averaged, converts ? bytes : Bytes(0), momentum);

    const Bytes update = tidemark::bytes_of(DType::kBFloat16, slot.trained->elements);
    const StorageId variable = add_storage(slot, "orthogonal", update, Role::kTemporary);
    Work products{.op_class = OperatorClass::kMatmul, .dtype = DType::kBFloat16, .launches = 32};
    products.flops = newton_schulz_flops(shape);
    products.read = newton_schulz_bytes(shape) * 5;
    products.written = newton_schulz_bytes(shape) * 5;
    const std::int64_t rows = std::min(shape[0], element_count(shape) / shape[0]);
    products.extent = {rows, rows, element_count(shape) / rows, 5};
    const std::vector<Touch> made = {{slot.of(OptimizerTensor::kGradient), Access::kRead},
                                     {variable, Access::kCreate}};
    const OperatorId id =
        add_operator("orthogonalize", layer, made, newton_schulz_bytes(shape) - update, products);
    hold_variable(last_variable, before, id);

    Work work{.op_class = OperatorClass::kOptimizer, .dtype = slot.weights, .launches = 2};
    work.flops = Flops(3 * static_cast<double>(slot.trained->elements.count));
    work.read = bytes * 2 + update;
    work.written = bytes * 2;
    std::vector<Touch> touches = {{slot.of(OptimizerTensor::kWeights), Access::kMutate},
                                  {variable, Access::kRead}};
    if (slot.of(OptimizerTensor::kParameter).valid())
      touches.push_back({slot.of(OptimizerTensor::kParameter), Access::kOverwrite});
    add_operator("update", layer, touches, Bytes(0), work);
    last_variable = variable;
  }
}

}  // namespace tidemark
