// The step of a rank that holds shards of each unit and gathers a unit when its module runs: both
// versions of PyTorch's FSDP. Lifetimes are those of references in its code, in host order.
//
//   version 2, unit i of the forward pass (fully_shard/_fsdp_param_group.py)
//     gather i     a copy of the shards in the compute type, and all_gather_output(i), on the queue
//     release      all_gather_output(i - 1): the gathers' streams have waited for its copy
//     copy out i   the parameters of full size, on compute
//     ... forward of the module ...
//     reshard      a copy of what fewer ranks share of a parameter, where that is asked for, and
//     release      the parameter, one by one, where the unit is resharded
//   backward of unit i
//     use          the parameters; all_gather_output(i) goes
//     gather i - 1 in the order of backward (gathered.hpp)
//     ... backward of the module: gradients of full size ...
//     release      the parameters
//     wait         for the reduction of the unit before; its input goes
//     copy in      the input of the reduction, in the type of the reduction; the gradients go
//     reduce       into the sharded gradients; replicas add theirs, now or in the last micro-batch
//   version 1 (fsdp/_flat_param.py) gathers straight into the flat parameter, from a copy of the
//   shard in the compute type; the flat gradient is put together from those of the views when all
//   are there.
#pragma once

#include "graph/ir/training_graph.hpp"
#include "policies/plan/rewrite_context.hpp"
#include "policies/shard/shard_units.hpp"

namespace tidemark {

struct ZeroOptions;  // policies/shard/zero_options.hpp

struct FsdpOptions {
  int version = 2;
  UnitOptions units;
  std::optional<DType> param_dtype;   // type of compute; that of the shards unless given
  std::optional<DType> reduce_dtype;  // type of the reduction; that of the gradients unless given
  // Absent: all units but the root (and, in version 1, those named by keep_gathered). The root of
  // version 1 stays gathered also where it is true.
  std::optional<bool> reshard_after_forward;
  // Version 2: backward gathers among this many neighbours, from the shards among them that each
  // unit keeps when it is resharded behind forward. It divides the ranks that share a unit, and is
  // at least 2 and less than all of them. Absent: backward gathers as forward does.
  std::optional<int> backward_ranks;
  // Version 1: tensors are aligned in the flat parameter. Unless given, so where a unit has frozen
  // and trained parameters, with which PyTorch needs it.
  std::optional<bool> use_orig_params;
  // Micro-batches but the last keep their gradients in full size and reduce nothing; unless given,
  // those of a pipeline do.
  std::optional<bool> no_sync;
  // Replicas add their gradients in every micro-batch, not only in the last.
  bool all_reduce_each = true;
  // The tier that shards live on and visit the device from, to be gathered.
  Tier shard_home = Tier::kDevice;
  // Stage 3 of ZeRO: shards are equal parts of each parameter's elements, small parameters stay
  // gathered, and gradients are reduced by someone else.
  const ZeroOptions* zero = nullptr;
};

// Shards the parameters of a graph that is differentiated, and accumulates, but has no optimizer
// yet. Leaves it as it is in a group of one rank. Returns the storage of this rank's shard of each
// parameter; invalid where that is a part of a flat one.
IdVector<ParameterId, StorageId> shard_fully(TrainingGraph& graph, const FsdpOptions& options,
                                             const RewriteContext& context);

}  // namespace tidemark
