// The losses that training.loss names, as torch.nn.functional computes them.
#pragma once

#include <span>

#include "graph/models/builder.hpp"
#include "graph/models/model_options.hpp"

namespace tidemark {

// Whether the loss takes an axis of classes: the last one of three, otherwise axis 1.
[[nodiscard]] bool takes_classes(LossKind kind);
// Returns how many results of a model the loss compares: 2 for cosine_embedding, 3 for triplet,
// otherwise 1.
[[nodiscard]] std::size_t results_of(LossKind kind);

// Takes the mean loss of a model's result; its targets become an input. Logits of 16 bits are
// converted to fp32 before cross_entropy unless they are left `narrow`. LossKind::kNone adds
// nothing. Throws UserError for cosine_embedding, triplet and ctc, which take the outputs of a file
// in ONNX.
void add_loss(ModelBuilder& builder, TensorId result, LossKind kind, bool narrow = false);
// Takes the mean loss of results_of(options.loss) results, of which the first is the model's
// output. ctc needs options.target_length.
void add_loss(ModelBuilder& builder, std::span<const TensorId> results,
              const ModelOptions& options);

}  // namespace tidemark
