// The transfers of one chunk of a pipeline with the chunks before and after it.
//
//   forward     receive_activation ... nodes ... send_activation
//   backward    receive_gradient   ... nodes ... send_gradient
//
// A received activation is a variable of the schedule until its backward is over, as in Megatron's
// and PyTorch's schedules; a received gradient until backward returns. An output is freed after the
// send, unless the schedule keeps it.
#pragma once

#include <vector>

#include "graph/core/ids.hpp"
#include "graph/ir/storage.hpp"

namespace tidemark {

struct StageBoundary {
  // The other end of a chunk's transfers: its rank, and the tag of activations. Gradients go the
  // other way with the next tag.
  struct Neighbour {
    int rank = -1;
    int tag = 0;
  };
  Neighbour before;
  Neighbour after;
  std::vector<TensorId> received;  // activations from the chunk before
  std::vector<TensorId> sent;      // activations for the chunk after
  std::vector<char> returns;       // whether the gradient of each sent tensor comes back
  // The output's memory is given back once it has been sent (deallocate_pipeline_outputs of
  // Megatron); otherwise the schedule keeps it until its backward is over.
  bool frees_outputs = true;
};

// The storages of a chunk's transfers, for chunks that are neighbours on one rank.
struct StageTransfers {
  std::vector<StorageId> received;            // one for each StageBoundary::received
  std::vector<StorageId> sent;                // one for each StageBoundary::sent
  std::vector<StorageId> received_gradients;  // gradients of `sent`; invalid where none comes back
  std::vector<StorageId> sent_gradients;      // gradients of `received`; invalid where not made
};

}  // namespace tidemark
