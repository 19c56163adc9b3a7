// A vocabulary of which each rank has a part: the table of an embedding, and the loss of logits
// that stay cut (Megatron-LM, tensor_parallel/layers.py and cross_entropy.py).
//
// The loss works in place on fp32 logits [samples, classes of this rank]:
//
//   maximum                     row_maximum, then an all-reduce of [samples]
//   logits -= maximum; exp      exponentials: also the target's logit and the sum of each row, both
//                               then all-reduced
//   probabilities, mean loss    vocabulary_loss: keeps the probabilities, whose memory the gradient
//                               takes over
#pragma once

#include "graph/operators/family.hpp"

namespace tidemark {

// indices, part of the table -> rows, zeros where another rank has the row.
[[nodiscard]] const OperatorFamily& vocabulary_embedding_family();
// logits -> maximum of each row.
[[nodiscard]] const OperatorFamily& row_maximum_family();
// logits, maxima, targets -> logits in place, target's logit, sum, mask, target on this rank.
[[nodiscard]] const OperatorFamily& exponentials_family();
// The outputs of `exponentials` -> mean loss.
[[nodiscard]] const OperatorFamily& vocabulary_loss_family();

}  // namespace tidemark
