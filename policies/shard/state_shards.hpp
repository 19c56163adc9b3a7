// The state of sharding what the optimizer works on. zero_step.cpp reduces the gradients,
// zero_update.cpp updates the partition. Only these two include this file.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "policies/shard/zero_step.hpp"

namespace tidemark::sharding {

class StateShards {
 public:
  // `shards`: in stage 3, this rank's part of each parameter.
  StateShards(TrainingGraph& graph, const ZeroOptions& options, const RewriteContext& context,
              IdVector<ParameterId, StorageId> shards);

  void build();

 private:
  // The part of a parameter that lies in this rank's partition.
  struct Piece {
    std::size_t member = 0;
    Elements elements;
    // The reduced gradient: of the whole parameter in stage 2, of this rank's part in stage 3.
    StorageId average;
  };

  void lay_out();
  void own_gradients();
  void update();
  void update_sub_groups();
  void gather_persistent();
  [[nodiscard]] std::vector<OperatorId> reduced(const std::vector<OperatorId>& part, bool adds);
  void reduce(const std::vector<std::size_t>& members, StorageId filled, bool adds,
              std::vector<OperatorId>& into);
  [[nodiscard]] Elements elements_of(std::size_t member) const {
    return graph_.parameters[parameters_[member]].elements;
  }
  [[nodiscard]] DType type() const { return graph_.parameters[parameters_.front()].gradient_dtype; }

  TrainingGraph& graph_;
  const ZeroOptions& options_;
  int ranks_;
  std::vector<ParameterId> parameters_;  // with a gradient, in the order of registration
  std::vector<StorageId> made_;          // by member: the gradient of backward
  std::vector<Piece> pieces_;
  Elements partition_;
  StorageId padding_;
  std::vector<StorageId> ipg_;  // the buffers that gradients are reduced through
  IdVector<ParameterId, StorageId> shards_;
};

}  // namespace tidemark::sharding
