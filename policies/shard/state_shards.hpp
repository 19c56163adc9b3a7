// The state of sharding what the optimizer works on. zero_step.cpp reduces the gradients,
// zero_update.cpp updates the partition. Only these two include this file.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "policies/shard/sharded_tensors.hpp"
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

  // One optimizer group: a flat tensor of parameters that the same ranks share.
  struct Group {
    std::string prefix;  // prefix of its tensors' names
    StateRanks ranks;
    std::vector<std::size_t> members;
    std::size_t first_piece = 0;  // its pieces follow each other
    std::size_t pieces = 0;
    Elements partition;
    StorageId padding;
  };

  [[nodiscard]] bool is_expert(ParameterId id) const {
    return mesh_.size(MeshDimension::kExpert) > 1 && graph_.parameters[id].of_expert;
  }
  [[nodiscard]] bool is_expert(std::size_t member) const { return is_expert(parameters_[member]); }
  [[nodiscard]] StateRanks ranks_of(std::size_t member) const {
    return state_ranks(mesh_, is_expert(member));
  }
  // Whether gradients leave for the host as they are reduced, to be updated with there.
  [[nodiscard]] bool on_host() const {
    return options_.stage > 1 && options_.optimizer_home != Tier::kDevice;
  }
  // Returns the ranks of a collective; 0 where those are the whole group.
  [[nodiscard]] int taking_part(int ranks, MeshDimension group) const {
    return ranks == mesh_.group(group).size ? 0 : ranks;
  }
  void lay_out();
  void lay_out_group(Group group);
  void own_gradients();
  void update(const Group& group, int number);
  void gather(const Group& group);
  void update_sub_groups();
  void gather_persistent();
  void add_ipg_buffers();
  [[nodiscard]] std::vector<OperatorId> reduced(const std::vector<OperatorId>& part, bool adds);
  OperatorId reduce(const std::vector<std::size_t>& members, StorageId filled, bool adds,
                    std::vector<OperatorId>& into);
  [[nodiscard]] Elements elements_of(std::size_t member) const {
    return graph_.parameters[parameters_[member]].elements;
  }
  [[nodiscard]] DType type() const { return graph_.parameters[parameters_.front()].gradient_dtype; }

  TrainingGraph& graph_;
  const ZeroOptions& options_;
  Mesh mesh_;
  std::vector<ParameterId> parameters_;  // parameters with a gradient, in the order of registration
  std::vector<StorageId> made_;          // gradient that backward makes of each member
  std::vector<Piece> pieces_;
  std::vector<Group> groups_;   // stages 1 and 2: without experts, and of experts
  std::vector<StorageId> ipg_;  // the buffers that gradients are reduced through
  IdVector<ParameterId, StorageId> shards_;
};

}  // namespace tidemark::sharding
