// Small changes to a training graph that sharding needs: tensors that are kept, gathered or sent,
// and what one rank holds of a parameter.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "graph/ir/training_graph.hpp"
#include "hwprofiles/mesh.hpp"

namespace tidemark {

// Adds a tensor without a fixed life.
StorageId add_tensor(TrainingGraph& graph, std::string name, DType type, Elements elements,
                     Role role);
// Adds a tensor that is there from before the first step until after the last.
StorageId add_kept(TrainingGraph& graph, std::string name, DType type, Elements elements,
                   Role role);

// The ranks that share the states of a parameter, and the copies of what each of them holds:
// shard x replicas ranks train the same parameter.
struct StateRanks {
  int shard = 1;
  int replicas = 1;
};
// Experts are trained by fewer ranks than the rest of the model, see Mesh::expert_replicas().
[[nodiscard]] StateRanks state_ranks(const Mesh& mesh, bool of_expert);

// Adds a collective of a tensor of `bytes` in all; `ranks` of the group take part, or all of it;
// `neighbours`: they are consecutive in it.
OperatorId add_collective(TrainingGraph& graph, CollectiveKind kind, MeshDimension group,
                          Phase phase, DType type, Bytes bytes, const std::vector<Touch>& touches,
                          int ranks = 0, bool neighbours = false);
// Adds an elementwise kernel that reads and writes what it touches: a copy, a cast, a sum; `moved`
// bytes of it where that is not all.
OperatorId add_copy(TrainingGraph& graph, std::string name, Phase phase,
                    const std::vector<Touch>& touches, std::optional<Bytes> moved = std::nullopt);

// Makes a parameter's storage one that is gathered, with room for `elements`.
void gather_into(Storage& storage, Elements elements);

// The rows of the first axis that the first of `ranks` ranks holds of a parameter: ceil(rows /
// ranks) of them are stored by every rank, the last ranks own fewer.
struct RowShard {
  Elements stored;
  Elements owned;
  Shape shape;  // shape of the owned part
};
[[nodiscard]] RowShard row_shard(const Parameter& parameter, int ranks);
// Returns ceil(elements / ranks) elements, whatever the parameter's shape.
[[nodiscard]] RowShard element_shard(const Parameter& parameter, int ranks);

// Releases these gradients in zero_grad, and no longer of those of whole parameters.
void release_in_zero_grad(TrainingGraph& graph, const std::vector<StorageId>& gradients);
// Fills these gradients in zero_grad, and no longer those of whole parameters.
void fill_in_zero_grad(TrainingGraph& graph, const std::vector<StorageId>& gradients);

}  // namespace tidemark
