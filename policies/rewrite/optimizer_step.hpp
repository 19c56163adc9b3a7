// The operators that update some parameters by one algorithm.
#pragma once

#include <array>
#include <span>
#include <string_view>
#include <vector>

#include "graph/ir/training_graph.hpp"
#include "policies/optimizers/spec.hpp"
#include "policies/rewrite/optimizer_states.hpp"
#include "policies/rewrite/precision.hpp"

namespace tidemark {

// One parameter's tensors; invalid where there is none.
struct OptimizerSlot {
  const UpdatedTensor* trained = nullptr;
  DType weights = DType::kFloat32;  // type of the updated weights, their moments and temporaries
  std::array<StorageId, kOptimizerTensors> storage{};

  [[nodiscard]] StorageId of(OptimizerTensor tensor) const {
    return storage[static_cast<std::size_t>(tensor)];
  }
  void set(OptimizerTensor tensor, StorageId id) { storage[static_cast<std::size_t>(tensor)] = id; }
};

// The update of some parameters by one algorithm.
class OptimizerStep {
 public:
  OptimizerStep(TrainingGraph& graph, const OptimizerSpec& spec, const PrecisionRules& precision,
                const FrameworkRules& rules, const ParameterUses& uses);
  // Builds the operators of the device.
  void build(const std::vector<const UpdatedTensor*>& parameters);
  // Adds the states that are made with the optimizer, of parameters that get no gradient.
  void add_states_from_start(const UpdatedTensor& unused);
  // Builds one operator of the host for all parameters.
  void build_on_host(const std::vector<const UpdatedTensor*>& parameters);

 private:
  void add_slot(const UpdatedTensor& trained);
  void add_state(OptimizerSlot& slot);
  [[nodiscard]] Work loop_work(const OptimizerSlot& slot) const;
  void add_loop();
  void add_matrices();
  void add_matrix(OptimizerSlot& slot, std::vector<StorageId>& variables);
  void hold_variable(StorageId variable, OperatorId since, OperatorId until);
  void add_touches(const OptimizerKernel& kernel, OptimizerSlot& slot, std::vector<Touch>& touches,
                   std::vector<StorageId>& variables);
  [[nodiscard]] int launches_of(const OptimizerKernel& kernel,
                                std::span<const Elements> elements) const;
  void add_foreach();
  [[nodiscard]] StorageId add_storage(const OptimizerSlot& slot, std::string_view suffix,
                                      Bytes bytes, Role role);
  [[nodiscard]] Bytes bytes_of(const OptimizerSlot& slot, OptimizerTensor tensor) const;
  void add_work(const OptimizerKernel& kernel, const OptimizerSlot& slot, Work& work) const;
  OperatorId add_operator(std::string_view kernel, LayerId layer, const std::vector<Touch>& touches,
                          Bytes workspace, const Work& work, PartKind part = PartKind::kOptimizer);

  TrainingGraph& graph_;
  const OptimizerSpec& spec_;
  const PrecisionRules& precision_;
  const FrameworkRules& rules_;
  const ParameterUses& uses_;
  OptimizerImplementation implementation_;
  std::vector<OptimizerKernel> kernels_;
  std::vector<OptimizerSlot> slots_;
};

}  // namespace tidemark
