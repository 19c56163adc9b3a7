// The values of forward that a compiled training step keeps for backward: the minimum cut of
// PyTorch's AOTAutograd.
//
// Each value of forward that backward reads is saved, or recomputed from values that are there.
// Operators that cannot be fused are never recomputed, nor are reductions to less than a
// quarter of what they read, random masks, and values that an operator of backward reads that
// cannot be fused, since those have to be in memory anyway. A saved value of n bytes weighs
//   n * 1.1^d * (2 if every reader in forward fuses with it),   d: operators to backward, at most
//   100
// (torch/_functorch/partitioners.py of 2.6 to 2.9: min_cut_rematerialization_partition).
#pragma once

#include <vector>

#include "graph/ir/training_graph.hpp"

namespace tidemark {

// The part of a step that torch.compile compiles: the model with its loss, or each repeated block
// by itself (regional compilation,
// https://docs.pytorch.org/tutorials/recipes/regional_compilation.html). The rest then runs
// eagerly, and what one block hands to the next is in memory.
enum class CompileScope { kModel, kBlocks };

// Whether the operator is in what is compiled.
[[nodiscard]] bool is_compiled(const TrainingGraph& graph, OperatorId id, CompileScope scope);

// Whether Inductor makes the operator a part of a larger kernel: elementwise work, normalisations,
// softmaxes and reductions that change no memory that lasts.
[[nodiscard]] bool is_fusible(const TrainingGraph& graph, OperatorId id, CompileScope scope);

// Returns for each storage whether backward computes its content again.
[[nodiscard]] IdVector<StorageId, char> recomputed_values(const TrainingGraph& graph,
                                                          CompileScope scope);

}  // namespace tidemark
