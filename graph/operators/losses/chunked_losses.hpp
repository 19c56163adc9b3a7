// Cross-entropy of a language model's head that never has the logits of all tokens at once.
//
// Inputs of both families: rows [n, width], the head's weight [classes, width], int64 targets [n],
// and optionally the head's bias [classes].
#pragma once

#include "graph/ir/operator_family.hpp"

namespace tidemark {

// One chunk of rows under torch.utils.checkpoint without reentrance: forward keeps no logits, and
// backward recomputes them. Attribute `loss_dtype`: the type of the log-probabilities.
[[nodiscard]] const OperatorFamily& checkpointed_cross_entropy_family();

// All rows, `rows` of them at a time: the gradients of rows and weight are made in forward, in the
// place of the logits, and kept. Attributes `rows`; `adds_products` where the weight's gradient
// adds up products of their own, each first converted to fp32, as Liger's does; otherwise they are
// accumulated by the product itself.
[[nodiscard]] const OperatorFamily& fused_cross_entropy_family();

// Tiles of logits that never leave the multiprocessor: keeps the rows and one number per row, and
// backward recomputes the tiles.
[[nodiscard]] const OperatorFamily& cut_cross_entropy_family();

}  // namespace tidemark
