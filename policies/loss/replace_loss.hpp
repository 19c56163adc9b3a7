// Replaces a head and its cross-entropy by losses of chunks of rows.
#pragma once

#include <cstdint>
#include <string_view>

#include "graph/ir/graph.hpp"
#include "graph/operators/framework.hpp"

namespace tidemark {

// The ways to compute the chunks of a loss.
enum class ChunkKind : std::uint8_t {
  kCheckpointed,  // each chunk is a function under torch.utils.checkpoint
  kKept,          // torchtune's: a list of logits, each with a loss of its own
  kKeptFp32,      // litgpt's: the same list, which Lightning Fabric converts to fp32 as outputs
  kFused,         // gradients are made in forward, in the place of the logits
  kLiger,         // the same by Liger's kernels
  kCut,           // no logits at all
};

// Returns the rows of a chunk by Liger's rule for `tokens` rows of a head of `classes` and `width`:
// logits of a chunk are to be about as large as the rows (fused_linear_cross_entropy.py).
[[nodiscard]] std::int64_t liger_rows(std::int64_t tokens, std::int64_t classes,
                                      std::int64_t width);

// Makes the loss of the graph one of chunks; `chunks` is 0 where the kind has a rule of its own.
// Throws UserError where the model has no such head; `policy` is for the message.
[[nodiscard]] Graph replace_loss(const Graph& graph, ChunkKind kind, std::int64_t chunks,
                                 std::string_view policy);

}  // namespace tidemark
