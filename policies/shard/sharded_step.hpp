// The state of sharding a step with gathered units. fsdp_step.cpp lays the units out,
// fsdp_forward.cpp builds forward, fsdp_backward.cpp backward. Only these include this file.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "policies/shard/fsdp_step.hpp"
#include "policies/shard/sharded_tensors.hpp"

namespace tidemark::sharding {

// Operators to insert into a part.
struct Insertions {
  std::vector<std::vector<OperatorId>> before;  // operators before each index of the part
  std::vector<std::vector<OperatorId>> after;
  std::vector<OperatorId> at_end;

  explicit Insertions(std::size_t operators) : before(operators), after(operators) {}
  [[nodiscard]] std::vector<OperatorId> into(const std::vector<OperatorId>& part) const {
    std::vector<OperatorId> result;
    for (std::size_t at = 0; at < part.size(); ++at) {
      result.insert(result.end(), before[at].begin(), before[at].end());
      result.push_back(part[at]);
      result.insert(result.end(), after[at].begin(), after[at].end());
    }
    result.insert(result.end(), at_end.begin(), at_end.end());
    return result;
  }
};

// The place of a micro-batch in its step. Without no_sync every one reduces its gradients: the
// first one's become the sharded gradients, those of later ones are added to them. With no_sync
// gradients of full size are added up, and the last one reduces the sum. Without all_reduce_each
// the sum over shards waits in a buffer of its own for the last one's sum over replicas:
//
//   micro-batch      0             1             2 (last)
//   no_sync          keep          add           add, reduce
//   all_reduce_each  reduce        reduce, add   reduce, add
//   otherwise        reduce, wait  reduce, add   reduce, add, replicas
struct MicroBatch {
  bool first = true;
  bool last = true;
};

class ShardedStep {
 public:
  ShardedStep(TrainingGraph& graph, const FsdpOptions& options, const RewriteContext& context);

  IdVector<ParameterId, StorageId> build();

 private:
  // One unit's shards and the storages that its gathers and reductions make.
  struct Unit {
    std::string name;
    StateRanks ranks;
    DType compute = DType::kFloat32;
    DType kept_as = DType::kFloat32;  // the type of the shards of what is trained
    bool kept = false;                // stays gathered after forward
    bool spans_model = false;         // its module is the model
    std::vector<ParameterId> parameters;
    std::vector<ParameterId> codes;  // those that are packed into elements of a flat parameter
    std::vector<StorageId> shards;   // one per parameter, or the flat one
    std::vector<StorageId> full;     // the gathered parameters; padding of a flat one comes last
    // This rank's shards of each of `full` among fewer ranks, for which the next gather needs no
    // others. Empty where all gathers are alike.
    std::vector<StorageId> secondary;
    // Every forward gathers from `secondary`, which is there before the first one.
    bool secondary_only = false;
    std::vector<StorageId> made;  // gradients of full size
    Elements stored;              // elements of this rank's shards, padding included
    Elements reduced;             // the same of trained parameters
    StorageId gradient;           // the sharded gradients; invalid without trained parameters
    DType reduce_type = DType::kFloat32;
    StorageId gathered;   // version 2: the output of the gather
    StorageId reduction;  // the input of the reduction
    StorageId partial;    // earlier micro-batches' sum over shards, before the sum over replicas
    // no_sync: gradients of full size in the type that they are added up in; one of them in version
    // 1. Empty where those that autograd makes stay.
    std::vector<StorageId> kept_gradients;
    OperatorId gather;
    OperatorId later_gather;  // from secondary shards that are there before forward
    OperatorId copy_out;
  };

  [[nodiscard]] bool flat() const { return options_.version == 1; }
  [[nodiscard]] RowShard shard_of(const Unit& unit, const Parameter& parameter) const;
  // Returns the ranks of a collective of the unit's; 0 where those are the whole group.
  [[nodiscard]] int taking_part(int ranks, MeshDimension group) const {
    return ranks == mesh_.size(group) ? 0 : ranks;
  }
  [[nodiscard]] Unit lay_out(const ShardUnit& unit);
  void lay_out_flat(const ShardUnit& unit, Unit& made);
  void lay_out_each(const ShardUnit& unit, Unit& made);
  void add_gradient(Unit& made);
  void keep_near_turn();
  void place_shards();
  [[nodiscard]] DType kept_type(const Parameter& parameter) const;
  [[nodiscard]] bool is_codes(const Parameter& parameter) const;
  [[nodiscard]] std::int64_t flat_elements(const Unit& unit, ParameterId id) const;
  void check_codes(const Unit& unit) const;
  void check_types(const Unit& unit) const;
  [[nodiscard]] std::int64_t alignment_of(const Unit& unit) const;
  [[nodiscard]] Elements updated_elements(const Unit& unit) const;
  [[nodiscard]] IdVector<ParameterId, StorageId> shards() const;
  void update_shards();
  void map_storages();
  void build_forward();
  [[nodiscard]] OperatorId gather_of(Unit& unit, bool first);
  [[nodiscard]] std::vector<OperatorId> gathered_forward(const std::vector<OperatorId>& part,
                                                         bool first);
  void add_gathers(Unit& unit);
  [[nodiscard]] Bytes gathered_bytes(const Unit& unit) const;
  [[nodiscard]] OperatorId gather_from(Unit& unit, const std::vector<StorageId>& sources,
                                       int ranks);
  [[nodiscard]] std::optional<int> secondary_ranks(const Unit& unit) const;
  // Marks on the device may touch them; those on the host go when the last gather has read them.
  [[nodiscard]] bool marks_secondary() const {
    return options_.zero == nullptr || options_.shard_home == Tier::kDevice;
  }
  void add_secondary(Unit& unit);
  void drop_secondary();
  [[nodiscard]] bool outlives_step(const Parameter& parameter) const;
  void reshard(const Unit& unit, Phase phase, std::vector<OperatorId>& into);
  void build_backward();
  void build_unsynced_backward(const std::vector<OperatorId>& backward);
  [[nodiscard]] bool unsynced() const;
  [[nodiscard]] bool leaves_at_end(const Unit& unit) const;
  [[nodiscard]] bool stays_gathered(const Unit& unit) const;
  [[nodiscard]] Executor reducer() const;
  [[nodiscard]] bool replicas_wait(const Unit& unit) const;
  [[nodiscard]] bool keeps_own_gradients(const Unit& unit) const {
    return !flat() && unit.reduce_type == unit.compute;
  }
  [[nodiscard]] OperatorId mark_of_use(const Unit& unit);
  [[nodiscard]] std::vector<OperatorId> reduced(const std::vector<OperatorId>& part,
                                                MicroBatch micro);
  void keep_gradients(Unit& unit, MicroBatch micro, std::vector<OperatorId>& into);
  [[nodiscard]] std::vector<OperatorId> reduction_of(Unit& unit, MicroBatch micro);
  StorageId join_gradients(Unit& unit, std::vector<OperatorId>& into);
  void add_reduction(Unit& unit, MicroBatch micro, std::vector<OperatorId>& into);
  [[nodiscard]] OperatorId add_wait(const Unit& unit, MicroBatch micro);
  [[nodiscard]] OperatorId add_mark(OperatorPart part, Phase phase,
                                    const std::vector<StorageId>& storages);
  [[nodiscard]] StorageId add_buffer(const std::string& name, DType type, Elements elements);
  [[nodiscard]] std::vector<StorageId> gradients() const;

  TrainingGraph& graph_;
  const FsdpOptions& options_;
  Mesh mesh_;
  ShardUnits units_;
  DType built_as_;                   // the type in which the model is built
  bool trains_;                      // the step has a backward
  std::vector<UnitVisit> backward_;  // the backward of each unit, before anything is inserted
  std::vector<Unit> tensors_;
  std::vector<Hold> all_reduced_;  // inputs of the sums over replicas of the backward in hand
  IdVector<StorageId, std::optional<std::size_t>> unit_of_;  // unit of full parameters, gradients
};

}  // namespace tidemark::sharding
