// The losses that training.loss names, as torch.nn.functional computes them.
#pragma once

#include "graph/models/builder.hpp"
#include "graph/models/model_options.hpp"

namespace tidemark {

// Whether the loss takes an axis of classes: the last one of three, otherwise axis 1.
[[nodiscard]] bool takes_classes(LossKind kind);

// Takes the mean loss of a model's result; its targets become an input. Logits of 16 bits are
// converted to fp32 before cross_entropy unless they are left `narrow`. LossKind::kNone adds
// nothing.
void add_loss(ModelBuilder& builder, TensorId result, LossKind kind, bool narrow = false);

}  // namespace tidemark
