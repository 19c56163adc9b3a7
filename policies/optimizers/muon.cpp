// Jordan's Muon for hidden matrices, and AdamW for all other parameters, as in his single-device
// code. The products of a matrix's update are no elementwise kernels: see rewrite/muon_step.hpp.
#include "policies/optimizers/entries.hpp"
#include "policies/optimizers/spec.hpp"

namespace tidemark {

const OptimizerAlgorithm& muon_optimizer() {
  static constexpr OptimizerAlgorithm kMuon{
      .name = "muon",
      .summary =
          "1 moment of hidden matrices, 4 bytes per parameter in fp32, and adamw for embeddings, "
          "head and vectors (Jordan 2024)",
      .forms = {true, false, false},
      .weight_decay = 0.1,
      .momentum = 0.95,
      .add_states =
          [](const OptimizerSpec& /*spec*/, const OptimizedParameter& parameter,
             std::vector<OptimizerState>& states) {
            states.push_back({OptimizerTensor::kFirstMoment, "momentum_buffer", parameter.moment});
          },
      .on_host = false,
      .beside_matrices = adamw_optimizer};
  return kMuon;
}

}  // namespace tidemark
